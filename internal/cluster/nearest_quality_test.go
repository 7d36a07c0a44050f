package cluster

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// Paragraphs of articles are documents of their own, without links: their vectors relate those of
// the same article.
func TestQualityOfNearestNeighbours(t *testing.T) {
	dir := dataset(t, "squad-paragraphs")
	if dir == "" {
		return
	}
	all := jsonLines[beirDocument](t, filepath.Join(dir, "corpus.jsonl"))
	article := map[string][]int{}
	var files []file
	for _, d := range all[:4000] {
		// Random names, so that the folder has no information.
		files = append(files, file{uuid.NewSHA1(uuid.Nil, []byte(d.ID)).String() + "/p", paragraphs(d.Text)})
	}
	c := corpusOf(files)
	for i, f := range files {
		if c.count[f.name] == 1 {
			article[all[i].Metadata.Article] = append(article[all[i].Metadata.Article], c.first[f.name])
		}
	}
	clusters := build(c.sections, c.edges, Options{Name: named("")})
	at := c.assigned(clusters)
	of := map[int]string{}
	for a, list := range article {
		for _, s := range list {
			of[s] = a
		}
	}
	pure := func(at []int) float64 {
		members := map[int][]int{}
		for s, k := range at {
			members[k] = append(members[k], s)
		}
		pairs, same := 0, 0
		for _, list := range members {
			for i, a := range list {
				for _, b := range list[i+1:] {
					if pairs++; of[a] == of[b] {
						same++
					}
				}
			}
		}
		return float64(same) / float64(pairs)
	}
	mixed := slices.Clone(at)
	rand.New(rand.NewPCG(2, 2)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	ours, random := pure(at), pure(mixed)
	t.Logf("squad-paragraphs: %d sections in %d clusters; pairs in a cluster that are of one article: %.3f, random %.3f", len(c.sections), len(clusters), ours, random)
	if ours < 4*random {
		t.Errorf("pairs in a cluster that are of one article: %.3f, random %.3f", ours, random)
	}
}
