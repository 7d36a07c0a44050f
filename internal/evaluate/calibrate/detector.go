package calibrate

// This file trains FIT-RAG's eligible-augmentation detector on a pair model's scores. It decides
// whether the windows so far are enough to answer.

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// windowSentences is the number of sentences of a window, as the stage reduce cuts them.
	// maxWindows bounds the windows of a passage.
	windowSentences = 3
	maxWindows      = 64
	// width is the width of the detector's hidden layers. It has four layers, as in the paper.
	width = 48
	// maxLoss is the share of the answers in all windows that stopping early may lose.
	maxLoss = 0.01
	// Hyperparameters of the training.
	epochs, batchSize = 20, 64
	learningRate      = 0.002
)

// Detector decides whether scores of windows are enough.
type Detector struct {
	Layers []Layer `json:"-"`
	// Threshold is the lowest probability that loses at most 1 % of the answers that are in all
	// windows.
	Threshold float64 `json:"threshold"`
	// Measured on questions that neither the layers nor the threshold were fitted on: the area
	// under the ROC curve; for comparison, the area of the highest has_answer alone; the share of
	// questions with the answer in the windows taken, and in all windows; and the mean number of
	// windows taken.
	Area          float64 `json:"area"`
	HighestArea   float64 `json:"highest_area"`
	WithAnswer    float64 `json:"with_answer"`
	WithAnswerAll float64 `json:"with_answer_all"`
	Windows       float64 `json:"windows"`
	Questions     int     `json:"questions"`
}

// scoredWindow is the best window of a passage.
type scoredWindow struct {
	has, prefer float64
	holds       bool
}

// prefixes are the inputs and labels of the first, the first two, the first three ... windows of a
// question, sorted by the sum of their scores, best first.
type prefixes struct {
	inputs [][]float64
	enough []bool
}

func prefixesOf(windows []scoredWindow) prefixes {
	slices.SortStableFunc(windows, func(a, b scoredWindow) int { return cmp.Compare(b.has+b.prefer, a.has+a.prefer) })
	var out prefixes
	input := make([]float64, 2*wire.DetectPairs)
	enough := false
	for i, w := range windows[:min(len(windows), wire.DetectPairs)] {
		input[2*i], input[2*i+1] = w.has, w.prefer
		enough = enough || w.holds
		out.inputs, out.enough = append(out.inputs, slices.Clone(input)), append(out.enough, enough)
	}
	return out
}

// detector trains a detector on the pair model's scores.
func (r *run) detector(ctx context.Context) error {
	if r.found.Pair == nil {
		return nil
	}
	var all []prefixes
	err := r.each(ctx, "detector", func(q *question) error {
		var texts []string
		var of []int // index of the passage of each text
		var holds []bool
		for _, i := range indices(min(answerDepth, len(q.best))) {
			p := r.sample.passages[q.best[i]]
			sentences := text.Sentences(p.body)
			for first := range min(maxWindows, max(1, len(sentences)-windowSentences+1)) {
				last := min(first+windowSentences, len(sentences)) - 1
				w := p
				w.body = p.body[sentences[first].Start:sentences[last].End]
				texts, of, holds = append(texts, w.input()), append(of, i), append(holds, q.answers.In(w.body))
			}
		}
		scores, err := scoreTexts(ctx, r.models.Score, q.text, texts)
		if err != nil {
			return err
		}
		best := map[int]scoredWindow{}
		for i, s := range scores {
			w := scoredWindow{float64(s.HasAnswer), float64(s.LLMPrefer), holds[i]}
			if old, ok := best[of[i]]; !ok || w.has+w.prefer > old.has+old.prefer {
				best[of[i]] = w
			}
		}
		var windows []scoredWindow
		for i := range len(q.best) {
			if w, ok := best[i]; ok {
				windows = append(windows, w)
			}
		}
		all = append(all, prefixesOf(windows))
		return nil
	})
	if err != nil {
		return err
	}
	// Questions are in random order: half of them for training, a quarter for the threshold, a
	// quarter for measuring.
	half, threeQuarters := len(all)/2, len(all)*3/4
	d := trainDetector(r.sample.random, all[:half], all[half:threeQuarters], all[threeQuarters:])
	if d.Area < minArea {
		r.found.note("no detector: it would hardly tell windows with an answer from others (area under the ROC curve %.2f)", d.Area)
		return nil
	}
	r.found.Detector = &d
	return nil
}

// trainDetector trains on some questions, finds the threshold on others, and measures on the rest.
func trainDetector(random *rand.Rand, train, threshold, measure []prefixes) Detector {
	type one struct {
		question, prefix int
	}
	var order []one
	squares, n := 0.0, 0
	for i, p := range train {
		for j, x := range p.inputs {
			order = append(order, one{i, j})
			for _, v := range x[2*j : 2*j+2] {
				squares += v * v
				n++
			}
		}
	}
	net := newNetwork(random, max(1e-3, math.Sqrt(squares/float64(max(1, n)))), 2*wire.DetectPairs, width, width, width, 1)
	steps := epochs * ((len(order) + batchSize - 1) / batchSize)
	for range epochs {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for part := range slices.Chunk(order, batchSize) {
			total := 0.0
			for _, x := range part { // a question weighs 1, regardless of its number of windows
				total += 1 / float64(len(train[x.question].inputs))
			}
			for _, x := range part {
				p := train[x.question]
				net.learn(p.inputs[x.prefix], p.enough[x.prefix], 1/float64(len(p.inputs))/total)
			}
			net.step(learningRate * (1 - float64(net.steps)/float64(steps)))
		}
	}
	out := Detector{Layers: net.plain(), Questions: len(measure), Threshold: 0.99}
	_, everything, _ := net.take(threshold, 2)
	for t := 0.02; t < 0.99; t += 0.01 {
		if with, _, _ := net.take(threshold, t); with >= (1-maxLoss)*everything {
			out.Threshold = math.Round(100*t) / 100
			break
		}
	}
	var chances, highest []float64
	var enough []bool
	for _, p := range measure {
		best := math.Inf(-1)
		for i, x := range p.inputs {
			best = max(best, x[2*i])
			chances, highest, enough = append(chances, net.chance(x)), append(highest, best), append(enough, p.enough[i])
		}
	}
	out.Area, out.HighestArea = area(chances, enough), area(highest, enough)
	out.WithAnswer, out.WithAnswerAll, out.Windows = net.take(measure, out.Threshold)
	return out
}

// take stops at the first prefix whose probability reaches the threshold. It returns the share of
// questions with the answer in the windows taken, the share with it in all windows, and the mean
// number of windows taken.
func (n *network) take(questions []prefixes, threshold float64) (with, all, windows float64) {
	of := float64(max(1, len(questions)))
	for _, p := range questions {
		if len(p.inputs) == 0 {
			continue
		}
		last := len(p.inputs) - 1
		at := last
		if i := slices.IndexFunc(p.inputs, func(x []float64) bool { return n.chance(x) >= threshold }); i >= 0 {
			at = i
		}
		if p.enough[at] {
			with += 1 / of
		}
		if p.enough[last] {
			all += 1 / of
		}
		windows += float64(at+1) / of
	}
	return with, all, windows
}
