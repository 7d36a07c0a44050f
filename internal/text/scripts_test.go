package text

import "testing"

func TestInScripts(t *testing.T) {
	for _, c := range []struct {
		text    string
		scripts []string
		want    float64
	}{
		{"Who wrote it?", []string{"Latin"}, 1},
		{"谁写的？", []string{"Latin"}, 0},
		{"谁写的？", []string{"Latin", "Han"}, 1},
		{"谁写的？", nil, 1},
		{"किसने लिखा", []string{"Latin"}, 0},
		{"ab谁写", []string{"Latin"}, 0.5},
		{"1984?", []string{"Latin"}, 1},
		{"", []string{"Latin"}, 1},
		{"Größe", []string{"Latin"}, 1},
	} {
		if got := InScripts(c.text, c.scripts); got != c.want {
			t.Errorf("%q in %v: %v, want %v", c.text, c.scripts, got, c.want)
		}
	}
}
