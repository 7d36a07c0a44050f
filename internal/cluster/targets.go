package cluster

// Resolution of links to documents. Documents have the external ids of their owner: paths in a
// folder, URLs, or plain ids.

import (
	"hash/fnv"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Parts of a page's name that links may leave out.
var (
	extensions = []string{".md", ".html", ".htm", ".markdown", ".mdx", ".txt", ".rst", ".adoc", ".pdf", ".docx"}
	indexes    = []string{"README.md", "readme.md", "index.md", "index.html", "index.htm", "index.mdx", "index.rst"}
)

// Targets returns the external ids that a link may mean, the likeliest first. base is the external
// id of the document with the link; it is empty for links that are ids or URLs already. A target is
// tried as it is, without its fragment and query, with other extensions of pages, and as the index
// page of a folder.
func Targets(base, target string) []string {
	w := resolveLocation(base, target)
	if w.path == "" {
		return nil
	}
	var out []string
	add := func(p string) {
		for _, s := range w.spellings(p) {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	if w.query != "" {
		add(w.path + "?" + w.query)
	}
	add(w.path)
	page := stem(w.path)
	if isDots(path.Base(page)) {
		return out
	}
	for _, e := range extensions {
		add(page + e)
	}
	add(page)
	for _, i := range indexes {
		add(page + "/" + i)
	}
	return out
}

// OfDocument is the section number of links in a document's metadata.
const OfDocument = -1

// Key returns a hash that is equal for a link and for every document that it may mean. The key of a
// document is Key("", its external id).
func Key(base, target string) int64 {
	w := resolveLocation(base, target)
	h := fnv.New64a()
	h.Write([]byte(strings.ToLower(w.host + "/" + stem(w.path)))) //nolint:errcheck // never fails
	return int64(h.Sum64())
}

// location is a target made absolute.
type location struct {
	scheme, host string // of a URL
	path, query  string
	rooted       bool // the path begins with a slash
}

// resolveLocation resolves target against base.
func resolveLocation(base, target string) location {
	from := parseLocation(base)
	if strings.HasPrefix(target, "//") && from.scheme != "" {
		target = from.scheme + ":" + target
	}
	to := parseLocation(target)
	if to.scheme == "" && base != "" {
		rooted := to.rooted
		to.scheme, to.host, to.rooted = from.scheme, from.host, from.rooted
		// External ids have paths unescaped, links have them escaped as in URLs.
		if decoded, err := url.PathUnescape(to.path); err == nil && to.scheme == "" && utf8.ValidString(decoded) && !strings.ContainsAny(decoded, "?#\x00") {
			to.path = decoded
		}
		switch {
		case to.path == "":
			to.path = from.path
		case rooted:
		case strings.HasSuffix(from.path, "/"):
			to.path = path.Join(from.path, to.path)
		default:
			to.path = path.Join(path.Dir(from.path), to.path)
		}
	}
	if to.path != "" {
		to.path = cleanPath(to.path)
	}
	return to
}

// parseLocation parses a target or an external id, without its fragment.
func parseLocation(s string) location {
	var p location
	s, _, _ = strings.Cut(s, "#")
	s, p.query, _ = strings.Cut(s, "?")
	if scheme, rest, found := strings.Cut(s, "://"); found && scheme != "" && !strings.ContainsAny(scheme, "/. ") {
		p.scheme = strings.ToLower(scheme)
		p.host, p.path, _ = strings.Cut(rest, "/")
		p.host = strings.ToLower(p.host)
		return p
	}
	p.path, p.rooted = s, strings.HasPrefix(s, "/")
	return p
}

// cleanPath returns a path without . and .. elements and without slashes at its ends. A path that
// leads out of its root stays in it.
func cleanPath(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

// stem returns a page's path without the parts that links leave out: a known extension, or the name
// of an index page.
func stem(p string) string {
	for {
		short := p
		for _, e := range extensions {
			if at := len(p) - len(e); at > 0 && strings.EqualFold(p[at:], e) && !isDots(p[strings.LastIndexByte(p[:at], '/')+1:at]) {
				short = p[:at]
				break
			}
		}
		if base := strings.ToLower(path.Base(short)); (base == "readme" || base == "index") && path.Dir(short) != "." {
			short = path.Dir(short)
		}
		if short == p {
			return p
		}
		p = short
	}
}

// isDots reports whether a name consists of dots, so that it stays without extensions.
func isDots(name string) bool { return strings.Trim(name, ".") == "" }

// spellings returns the external ids that mean the path p at this location.
func (w location) spellings(p string) []string {
	if w.scheme != "" {
		out := []string{w.scheme + "://" + w.host + "/" + p, w.scheme + "://" + w.host + "/" + p + "/"}
		for _, other := range [][2]string{{"https", "http"}, {"http", "https"}} {
			if w.scheme == other[0] {
				out = append(out, other[1]+"://"+w.host+"/"+p)
			}
		}
		return out
	}
	if w.rooted {
		p = "/" + p
	}
	return []string{p}
}

// FolderOf returns the folder of an external id as it is written, including the last slash; empty
// if it is in none.
func FolderOf(externalID string) string {
	externalID, _, _ = strings.Cut(externalID, "?")
	i := strings.LastIndexByte(externalID, '/')
	if i < 0 || strings.HasSuffix(externalID[:i+1], "://") {
		return ""
	}
	return externalID[:i+1]
}
