package batch

// This file has the limits of a batch on a CPU, without the graphs, so that benchmarks can import
// them.

const (
	// Items is the most texts or pairs of a batch.
	Items = 512
	// TextTokens is the most tokens of a batch of texts. More would not fit the caches: the shipped
	// encoder is three times slower at 32,768.
	TextTokens = 4 << 10
	// PairTokens is the most tokens of a batch of questions and texts. More would not be faster
	// (BenchmarkPairRun: the shipped graph reaches its highest throughput per core at 500 to
	// 4,000), and requests that arrive meanwhile wait until the batch is done.
	PairTokens = 1 << 10
	// RerankTokens is the same for the reranker, which takes ten times as long and gains little
	// from batches (docs/request-cost.md). A batch takes no longer than a long pair, which runs
	// alone.
	RerankTokens = 384
)
