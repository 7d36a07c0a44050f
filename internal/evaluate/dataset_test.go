package evaluate

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// folder writes a BEIR folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	someCorpus = `{"_id":"a","title":"A","text":"Alpha."}
{"_id":"b","title":"","text":"Beta.","metadata":{"links":["a"]}}
`
	someQueries = `{"_id":"1","text":"What is first?","metadata":{"answers":["Alpha"],"evidence":[{"doc":"a","text":"Alpha."}]}}
{"_id":"2","text":"What is second?","metadata":{"answers":"Beta","evidence":["Beta.", " "]}}

{"_id":"3","text":"Nobody judged this"}
{"_id":"4","text":"Nothing is relevant to this","metadata":null}
`
	someJudgements = "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\r\n2\tb\t1\n4\ta\t0\n"
)

func some() map[string]string {
	return map[string]string{"corpus.jsonl": someCorpus, "queries.jsonl": someQueries, "qrels/test.tsv": someJudgements}
}

func TestReadDataset(t *testing.T) {
	d, err := ReadDataset(folder(t, some()), "test")
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "set" || d.Documents != 2 || d.Unjudged != 2 || len(d.Queries) != 2 || len(d.Hash) != 64 {
		t.Fatalf("read %+v", d)
	}
	one, two := d.Queries[0], d.Queries[1]
	if one.ID != "1" || one.Text != "What is first?" || !maps.Equal(one.Relevant, map[string]int{"a": 2}) ||
		!slices.Equal(one.Answers, []string{"Alpha"}) || !slices.Equal(one.Evidence, []string{"Alpha."}) {
		t.Errorf("the first question is %+v", one)
	}
	if !maps.Equal(two.Relevant, map[string]int{"b": 1}) || !slices.Equal(two.Answers, []string{"Beta"}) || !slices.Equal(two.Evidence, []string{"Beta."}) {
		t.Errorf("the second question is %+v", two)
	}
}

func TestReadDatasetWithoutAHeaderAndByItsSplit(t *testing.T) {
	files := some()
	files["qrels/dev.tsv"] = "2\tb\t3\n"
	d, err := ReadDataset(folder(t, files), "dev")
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Queries) != 1 || d.Queries[0].ID != "2" || d.Queries[0].Relevant["b"] != 3 || d.Split != "dev" {
		t.Errorf("read %+v", d)
	}
}

// TestAnswersNeedNoCorpus: questions with answers are a set for plans that answer without
// documents. A set with judgements needs documents.
func TestAnswersNeedNoCorpus(t *testing.T) {
	files := some()
	delete(files, "corpus.jsonl")
	if _, err := ReadDataset(folder(t, files), "test"); err == nil || !strings.Contains(err.Error(), "corpus.jsonl is not there") {
		t.Errorf("judgements of no documents gave %v", err)
	}
	delete(files, "qrels/test.tsv")
	d, err := ReadDataset(folder(t, files), "test")
	if err != nil {
		t.Fatal(err)
	}
	if !d.AnswersAlone || d.Documents != 0 || len(d.Hash) != 64 || len(d.Queries) != 2 {
		t.Errorf("read %+v", d)
	}
}

// The hash is part of the name of a kept collection, so it must change with the documents, and only
// with them.
func TestHashIsOfTheDocuments(t *testing.T) {
	hash := func(change func(files map[string]string)) string {
		files := some()
		change(files)
		d, err := ReadDataset(folder(t, files), "test")
		if err != nil {
			t.Fatal(err)
		}
		return d.Hash
	}
	same := hash(func(map[string]string) {})
	if hash(func(f map[string]string) { f["qrels/test.tsv"] = "1\ta\t1\n" }) != same {
		t.Error("judgements change the hash")
	}
	if hash(func(f map[string]string) { f["corpus.jsonl"] = strings.Replace(someCorpus, "Beta", "Gamma", 1) }) == same {
		t.Error("a document changes and the hash does not")
	}
}

func TestReadDatasetSaysWhereItIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, file, content string
		want                []string
	}{
		{"no corpus", "corpus.jsonl", "", []string{"corpus.jsonl is not there"}},
		{"no queries", "queries.jsonl", "", []string{"queries.jsonl is not there"}},
		{"no judgements", "qrels/test.tsv", "", []string{"qrels/test.tsv is not there"}},
		{"empty corpus", "corpus.jsonl", "\n", []string{"corpus.jsonl", "has no documents"}},
		{"not JSON", "corpus.jsonl", someCorpus + "{oops\n", []string{"corpus.jsonl line 3", "is not JSON"}},
		{"not an object", "corpus.jsonl", `["a"]`, []string{"corpus.jsonl line 1", "is not a JSON object"}},
		{"document without id", "corpus.jsonl", someCorpus + `{"text":"x"}`, []string{"corpus.jsonl line 3", "_id: is missing"}},
		{"id of a wrong type", "corpus.jsonl", `{"_id":7}`, []string{"corpus.jsonl line 1", "_id: is a number"}},
		{"document twice", "corpus.jsonl", someCorpus + "\n" + `{"_id":"a"}`, []string{"corpus.jsonl line 4", `"a" is on line 1 already`}},
		{"question twice", "queries.jsonl", someQueries + `{"_id":"2","text":"x"}`, []string{"queries.jsonl line 6", `"2" is on line 2 already`}},
		{"question without text", "queries.jsonl", `{"_id":"1","text":" "}`, []string{"queries.jsonl line 1", "text: is missing"}},
		{"a scope of a wrong type", "queries.jsonl", `{"_id":"1","text":"x","metadata":{"scope":"p7"}}`, []string{"queries.jsonl line 1", "metadata.scope", "p7"}},
		{"a scope of objects", "queries.jsonl", `{"_id":"1","text":"x","metadata":{"scope":{"paper":{"id":7}}}}`, []string{"queries.jsonl line 1", "metadata.scope: paper"}},
		{"an empty scope", "queries.jsonl", `{"_id":"1","text":"x","metadata":{"scope":{"paper":[]}}}`, []string{"queries.jsonl line 1", "at least one value"}},
		{"answers of a wrong type", "queries.jsonl", `{"_id":"1","text":"x","metadata":{"answers":[1]}}`, []string{"queries.jsonl line 1", "metadata.answers"}},
		{"columns", "qrels/test.tsv", "1 a 1\n", []string{"qrels/test.tsv line 1", "1 columns"}},
		{"score", "qrels/test.tsv", "1\ta\t1\n2\tb\tgood\n", []string{"qrels/test.tsv line 2", `"good" is not a whole number`}},
		{"unknown question", "qrels/test.tsv", "1\ta\t1\n9\ta\t1\n", []string{"qrels/test.tsv line 2", `"9" is not in queries.jsonl`}},
		{"unknown document", "qrels/test.tsv", "1\tz\t1\n", []string{"qrels/test.tsv line 1", `"z" is not in corpus.jsonl`}},
		{"judged twice", "qrels/test.tsv", "1\ta\t1\n1\ta\t1\n", []string{"qrels/test.tsv line 2", "judged on line 1 already"}},
		{"nothing to ask", "qrels/test.tsv", "1\ta\t0\n", []string{"no question has a relevant document"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := some()
			files[c.file] = c.content
			if c.content == "" {
				delete(files, c.file)
				files["qrels/dev.tsv"] = someJudgements // of another split
			}
			_, err := ReadDataset(folder(t, files), "test")
			for _, part := range c.want {
				if err == nil || !strings.Contains(filepath.ToSlash(err.Error()), part) {
					t.Errorf("error is %v; want %q in it", err, part)
				}
			}
		})
	}
	files := some()
	files["qrels/dev.tsv"], files["qrels/train.tsv"] = "1\ta\t1\n", "1\ta\t1\n"
	if _, err := ReadDataset(folder(t, files), "eval"); err == nil || !strings.Contains(err.Error(), "--split: dev, test, train") {
		t.Errorf("error is %v; want the splits that there are", err)
	}
	files["corpus.jsonl"] = fmt.Sprintf(`{"_id":"a","text":%q}`, strings.Repeat("x", maxLine))
	if _, err := ReadDataset(folder(t, files), "test"); err == nil || !strings.Contains(err.Error(), "line 1: is longer than 64 MB") {
		t.Errorf("a line over the limit gave %v", err)
	}
}

func TestAScopeBecomesAFilter(t *testing.T) {
	var got queryMetadata
	if err := json.Unmarshal([]byte(`{"scope": {"year": 2024, "paper": ["p7", "p8"]}}`), &got); err != nil {
		t.Fatal(err)
	}
	want := schema.Filter{{Key: "paper", Op: schema.OpIn, Values: []string{"p7", "p8"}}, {Key: "year", Op: schema.OpIn, Values: []string{"2024"}}}
	if !reflect.DeepEqual(schema.Filter(got.Scope), want) {
		t.Errorf("the filter is %+v, want %+v", got.Scope, want)
	}
}
