package lexical

import "errors"

// Analyzer makes terms of text in one language. Many goroutines may use it.
type Analyzer struct{}

// NewAnalyzer returns the analyser of a language (BCP 47, such as "en" or
// "pt-BR"). A language without a stemmer is analysed into words; an error says
// that the tag is malformed.
func NewAnalyzer(language string) (*Analyzer, error) { return nil, errors.New("no") }

// Terms returns the terms of text, in its order.
func (a *Analyzer) Terms(text string) []string { return nil }
