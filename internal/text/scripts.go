package text

import "unicode"

// InScripts returns the share of a text's letters that belong to one of the scripts in names, which
// are Unicode's. It is 1 for a text without letters, and if names is empty. Letters that several
// scripts share are not counted.
func InScripts(s string, names []string) float64 {
	if len(names) == 0 {
		return 1
	}
	letters, known := 0, 0
	for _, r := range s {
		if !unicode.IsLetter(r) || unicode.In(r, unicode.Common, unicode.Inherited) {
			continue
		}
		letters++
		for _, name := range names {
			if table := unicode.Scripts[name]; table != nil && unicode.Is(table, r) {
				known++
				break
			}
		}
	}
	if letters == 0 {
		return 1
	}
	return float64(known) / float64(letters)
}
