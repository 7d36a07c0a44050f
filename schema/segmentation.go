package schema

// This file is the part of a recipe that says how sections become passages.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Methods of segmentation.
const (
	// BySegmenter cuts between sentences that the segmentation model scores low
	// (SAGE, sections IV-D and IV-E).
	BySegmenter = "segmenter"
	// BySimilarity cuts between sentences whose vectors differ (ChunkRAG, section 3.1).
	BySimilarity = "similarity"
	// BySentences cuts after a fixed number of sentences (SAKI-RAG's chunks).
	BySentences = "sentences"
	// ByRecursion cuts at the coarsest boundaries that make passages short enough: between
	// paragraphs, lines, sentences or words, as recursive text splitters do.
	ByRecursion = "recursive"
)

// Default settings of a Segmentation: the papers' values, except for the limits in tokens, which
// are Sluice's own.
const (
	CoarseTokens    = 400  // SAGE's l
	SplitScore      = 0.55 // SAGE's ss, on SAGE's own model
	SplitSimilarity = 0.8  // ChunkRAG's theta
	ChunkCharacters = 500  // ChunkRAG's limit
	ChunkSentences  = 2    // SAKI-RAG's chunks
	SplitCharacters = 1000 // of recursive splitters, by common use
	PassageTokens   = 400  // the most tokens that models read of a passage
	SegmentTokens   = 256  // the most tokens of a passage of the segmenter: docs/segmentation.md has the measurements
	ShortTokens     = 24
	CutsApart       = 2 // Sluice's own: of two adjacent boundaries, one is cut
)

// maxPassageTokens is the most tokens of a section.
const maxPassageTokens = 1000

// Segmentation says how a collection's sections become passages. It is part of a generation's
// recipe: a change needs a new generation. A setting of 0 has its default.
type Segmentation struct {
	By string `json:"by" enum:"segmenter,similarity,sentences,recursive" doc:"segmenter: SAGE's model scores neighbouring sentences; similarity: ChunkRAG's rule, by the vectors of neighbouring sentences; sentences: every so many sentences; recursive: at the coarsest of paragraphs, lines, sentences and words that makes passages short enough."`
	// Threshold is the score or cosine below which there is a cut. It is in the scale of the model
	// pack. 0 for the segmenter is the pack's own threshold, the equivalent of SplitScore.
	Threshold float64 `json:"threshold,omitempty" minimum:"0" maximum:"1" doc:"segmenter, similarity: below this score or cosine is a cut. 0.8 for similarity; for segmenter the model pack's own, which stands for SAGE's 0.55."`
	// Calibrated: the threshold of similarity is the model pack's equivalent of SplitSimilarity at
	// the time when text is cut.
	Calibrated bool `json:"calibrated,omitempty" doc:"similarity: the threshold is the model pack's own, in the scale of its vectors; instead of a threshold."`
	// MaxCharacters is the length below which a passage stays; a longer sentence is cut.
	MaxCharacters int `json:"max_characters,omitempty" minimum:"0" maximum:"10000" doc:"similarity: a passage stays under so many characters; 500. recursive: it has no more; 1000."`
	Sentences     int `json:"sentences,omitempty" minimum:"0" maximum:"100" doc:"sentences: how many make a passage; 2."`
	// CoarseTokens is the most tokens of SAGE's coarse chunks.
	CoarseTokens int `json:"coarse_tokens,omitempty" minimum:"0" maximum:"1000" doc:"segmenter: length in tokens of the coarse chunks, between which is always a cut; 400."`
	// Apart: a boundary is cut only if no boundary fewer than Apart sentences away scores lower,
	// because scores fall and rise again around a change of subject. 0 is 1: every boundary that
	// scores below the threshold is cut. Collections older than the setting have 0.
	Apart int `json:"apart,omitempty" minimum:"0" maximum:"100" doc:"segmenter: of places to cut that are nearer to each other than so many sentences the one that scores lowest is cut; 2, and 1 cuts at all of them."`
	// MinTokens: a shorter passage joins a neighbour, so that a one-word heading stays with the
	// text after it. A passage stays shorter only if joining would exceed MaxTokens.
	MinTokens int `json:"min_tokens,omitempty" minimum:"0" maximum:"1000" doc:"segmenter: a shorter passage joins a neighbour; 24."`
	// MaxTokens is the most tokens of a passage; a longer sentence is cut.
	MaxTokens int `json:"max_tokens,omitempty" minimum:"0" maximum:"1000" doc:"The most tokens of a passage; 400, and 256 for segmenter."`
}

// Complete returns the segmentation with all settings of its method, or an error that names the
// invalid one. The zero value becomes the segmenter.
func (s Segmentation) Complete() (Segmentation, error) {
	if s == (Segmentation{}) {
		s.By = BySegmenter
	}
	usual := func(setting *int, value int) {
		if *setting == 0 {
			*setting = value
		}
	}
	if s.By == BySegmenter {
		usual(&s.MaxTokens, SegmentTokens)
	}
	usual(&s.MaxTokens, PassageTokens)
	switch s.By {
	case BySegmenter:
		usual(&s.CoarseTokens, CoarseTokens)
		usual(&s.Apart, CutsApart)
		usual(&s.MinTokens, min(ShortTokens, max(s.MaxTokens, 0)))
	case BySimilarity:
		usual(&s.MaxCharacters, ChunkCharacters)
		if s.Threshold == 0 && !s.Calibrated {
			s.Threshold = SplitSimilarity
		}
	case BySentences:
		usual(&s.Sentences, ChunkSentences)
	case ByRecursion:
		usual(&s.MaxCharacters, SplitCharacters)
	}
	return s, s.Check()
}

// Check returns an error that names the first setting that is out of range or belongs to another
// method.
func (s Segmentation) Check() error {
	switch s.By {
	case BySegmenter, BySimilarity, BySentences, ByRecursion:
	case "":
		return Invalid("segmentation.by", "missing: one of %s, %s, %s and %s", BySegmenter, BySimilarity, BySentences, ByRecursion)
	default:
		return Invalid("segmentation.by", "%q is not known; there are %s, %s, %s and %s", s.By, BySegmenter, BySimilarity, BySentences, ByRecursion)
	}
	if !(s.Threshold >= 0 && s.Threshold <= 1) {
		return Invalid("segmentation.threshold", "%g: it must be above 0 and at most 1", s.Threshold)
	}
	if s.Threshold != 0 && !s.Scored() {
		return foreign("threshold", BySegmenter+" and "+BySimilarity)
	}
	switch {
	case s.Calibrated && s.By != BySimilarity:
		return foreign("calibrated", BySimilarity)
	case s.Calibrated && s.Threshold != 0:
		return Invalid("segmentation.threshold", "%g: leave it out, as calibrated takes the model pack's", s.Threshold)
	}
	for _, n := range s.numbers() {
		switch {
		case len(n.of) > 0 && !slices.Contains(n.of, s.By) && *n.value != 0:
			return foreign(n.name, strings.Join(n.of, " and "))
		case len(n.of) > 0 && !slices.Contains(n.of, s.By):
		case *n.value < n.minimum || *n.value > n.maximum:
			return Invalid("segmentation."+n.name, "%d: it must be from %d to %d", *n.value, n.minimum, n.maximum)
		}
	}
	if s.MinTokens > s.MaxTokens {
		return Invalid("segmentation.min_tokens", "%d: it must not be above max_tokens (%d)", s.MinTokens, s.MaxTokens)
	}
	return nil
}

// Scored reports whether cuts depend on scores of neighbouring sentences: a model's, or the cosines
// of their vectors.
func (s Segmentation) Scored() bool { return s.By == BySegmenter || s.By == BySimilarity }

func foreign(name, of string) error {
	return Invalid("segmentation."+name, "is a setting of %s only", of)
}

// number is a whole-number setting: its range, and the methods that have it; nil: all.
type number struct {
	name             string
	value            *int
	of               []string
	minimum, maximum int
}

func (s *Segmentation) numbers() []number {
	return []number{
		{"max_characters", &s.MaxCharacters, []string{BySimilarity, ByRecursion}, 2, 10000},
		{"sentences", &s.Sentences, []string{BySentences}, 1, 100},
		{"coarse_tokens", &s.CoarseTokens, []string{BySegmenter}, 1, maxPassageTokens},
		{"apart", &s.Apart, []string{BySegmenter}, 0, 100},
		{"min_tokens", &s.MinTokens, []string{BySegmenter}, 0, maxPassageTokens},
		{"max_tokens", &s.MaxTokens, nil, 1, maxPassageTokens},
	}
}

// String writes the segmentation as ParseSegmentation reads it.
func (s Segmentation) String() string {
	var b strings.Builder
	b.WriteString(s.By)
	if s.Threshold != 0 {
		fmt.Fprintf(&b, ",threshold=%g", s.Threshold)
	}
	if s.Calibrated {
		b.WriteString(",threshold=" + calibrated)
	}
	for _, n := range s.numbers() {
		if *n.value != 0 {
			fmt.Fprintf(&b, ",%s=%d", n.name, *n.value)
		}
	}
	return b.String()
}

// calibrated is the model pack's threshold in the text form of a Segmentation.
const calibrated = "calibrated"

// ParseSegmentation parses a method and its settings, as in
// "similarity,threshold=0.7,max_characters=800". A threshold may be "calibrated". Settings that are
// left out are 0; an empty text is the zero value.
func ParseSegmentation(text string) (Segmentation, error) {
	var s Segmentation
	if text == "" {
		return s, nil
	}
	by, rest, more := strings.Cut(text, ",")
	s.By = strings.TrimSpace(by)
	for more {
		var setting string
		setting, rest, more = strings.Cut(rest, ",")
		name, value, _ := strings.Cut(strings.TrimSpace(setting), "=")
		if err := s.set(name, value); err != nil {
			return Segmentation{}, err
		}
	}
	_, err := s.Complete()
	return s, err
}

func (s *Segmentation) set(name, value string) (err error) {
	if name == "threshold" && value == calibrated {
		s.Calibrated = true
		return nil
	}
	if name == "threshold" {
		if s.Threshold, err = strconv.ParseFloat(value, 64); err != nil {
			return Invalid("segmentation.threshold", "%q is not a number", value)
		}
		return nil
	}
	for _, n := range s.numbers() {
		if n.name == name {
			if *n.value, err = strconv.Atoi(value); err != nil {
				return Invalid("segmentation."+name, "%q is not a whole number", value)
			}
			return nil
		}
	}
	return Invalid("segmentation."+name, "there is no such setting")
}
