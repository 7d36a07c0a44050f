package batch

// This file is how much one batch takes on a CPU. It stands apart so that what measures batches
// knows it without the graphs.

const (
	// Items is how many texts, or pairs, a batch has at most.
	Items = 512
	// TextTokens is how many tokens a batch of texts has at most. More would fall out of the
	// caches: the shipped encoder is three times slower on 32,768.
	TextTokens = 4 << 10
	// PairTokens is how many tokens a batch of questions and texts has at most. More would be no
	// faster (BenchmarkPairRun: the shipped graph does most per second of a core at 500 to 4,000),
	// and whoever comes meanwhile waits for what runs.
	PairTokens = 1 << 10
	// RerankTokens is the same for the reranker, which takes ten times as long and gains little
	// from company (BenchmarkRerankRun: a sixth from 4 pairs of 140 tokens, and nothing from more).
	// A batch takes no longer than a long pair, which runs alone.
	RerankTokens = 384
)
