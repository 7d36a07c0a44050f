//go:build office

package parse

// Conversions by LibreOffice itself, which `make office` installs, of files that it made.

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// older returns a document saved by LibreOffice in an old format, without a sandbox.
func older(t *testing.T, name string, data []byte, to string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "soffice", "--headless", "-env:UserInstallation=file://"+dir+"/profile", "--convert-to", to, "--outdir", dir, filepath.Join(dir, name))
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	out, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(name, filepath.Ext(name))+"."+to))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wordsIn returns the words of a file in order, without marks that only belong to the layout.
func wordsIn(p schema.Parsed) []string {
	var out []string
	for _, b := range p.Blocks {
		for _, w := range strings.Fields(b.Text) {
			if strings.ContainsFunc(w, func(r rune) bool { return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }) {
				out = append(out, w)
			}
		}
	}
	return out
}

func TestLibreOfficeConvertsOldFormats(t *testing.T) {
	before := socketsLeft(t) // left by other processes that were killed
	p := pool(t, func(o *PoolOptions) { o.Workers = 1 })
	files := map[string][]byte{
		"book.xlsx": workbook(t, func(f *excelize.File) error {
			return fillSheet(f, "Sheet1", "A1", []any{"Country", "2023", "2024"}, []any{"France", 612.5, 17}, []any{"Spain", 700, 18})
		}),
		"slides.pptx": older(t, "slides.fodp", []byte(flatSlides), "pptx"),
	}
	found, err := filepath.Glob("../../examples/documents/*/*.docx")
	if err != nil || len(found) < 3 {
		t.Fatalf("documents of the repository: %v, %v", found, err)
	}
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = data
	}
	for name, data := range files {
		to := strings.TrimSuffix(strings.TrimPrefix(filepath.Ext(name), "."), "x")
		t.Run(name, func(t *testing.T) {
			want, err := p.Parse(t.Context(), name, "", data)
			if err != nil {
				t.Fatal(err)
			}
			old := older(t, name, data, to)
			got, err := p.Parse(t.Context(), "a."+to, "", old)
			if err != nil {
				t.Fatal(err)
			}
			if got.MediaType != mediaTypes[format(to)] {
				t.Errorf("its media type is %q", got.MediaType)
			}
			have, wanted := wordsIn(got), wordsIn(want)
			missing := 0
			for _, w := range wanted {
				if !slices.Contains(have, w) {
					missing++
				}
			}
			if missing*50 > len(wanted) {
				t.Errorf("%d of its %d words are lost\n%v\n%v", missing, len(wanted), have, wanted)
			}
			headings := func(p schema.Parsed) (n int) {
				for _, b := range p.Blocks {
					if b.Kind == schema.BlockHeading {
						n++
					}
				}
				return n
			}
			if headings(want) > 0 && headings(got) == 0 {
				t.Errorf("it had %d headings", headings(want))
			}
			// Also in an archive with another file.
			inside := archive(nil, "a."+to, string(old), "b.txt", "Beside it lies a note.")
			got, err = p.Parse(t.Context(), "both.zip", "", inside)
			if err != nil || !slices.Contains(wordsIn(got), "note.") || !slices.Contains(wordsIn(got), wanted[0]) {
				t.Errorf("in an archive: %v %v", err, got.Warnings)
			}
			if _, err := p.Parse(t.Context(), "cut."+to, "", old[:len(old)/2]); err == nil || strings.Contains(err.Error(), "panic") {
				t.Errorf("cut off it gives %v", err)
			}
		})
	}
	if c := p.run.officeConfinement.Load(); c == nil || len(c.Missing) > 0 || len(c.Applied) != 6 {
		t.Errorf("LibreOffice is confined by %v", c)
	}
	left := slices.DeleteFunc(socketsLeft(t), func(s string) bool { return slices.Contains(before, s) })
	if len(left) > 0 {
		t.Errorf("sockets are left: %v", left)
	}
}

// socketsLeft returns the sockets that any LibreOffice has created in /tmp.
func socketsLeft(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/tmp/OSL_PIPE_*SingleOfficeIPC_*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// flatSlides are two slides, from which LibreOffice makes a presentation.
const flatSlides = `<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"
 xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" office:version="1.2" office:mimetype="application/vnd.oasis.opendocument.presentation">
<office:body><office:presentation>
<draw:page draw:name="one"><draw:frame presentation:class="title" svg:width="20cm" svg:height="3cm" svg:x="1cm" svg:y="1cm"><draw:text-box><text:p>Review of 2024</text:p></draw:text-box></draw:frame>
<draw:frame svg:width="20cm" svg:height="9cm" svg:x="1cm" svg:y="5cm"><draw:text-box><text:p>Sales rose by 12 percent</text:p></draw:text-box></draw:frame></draw:page>
<draw:page draw:name="two"><draw:frame presentation:class="title" svg:width="20cm" svg:height="3cm" svg:x="1cm" svg:y="1cm"><draw:text-box><text:p>Outlook</text:p></draw:text-box></draw:frame></draw:page>
</office:presentation></office:body></office:document>`

// macroDocument has a Basic macro that runs when it is opened and creates a file.
const macroDocument = `<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:script="urn:oasis:names:tc:opendocument:xmlns:script:1.0" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dom="http://www.w3.org/2001/xml-events"
 xmlns:ooo="http://openoffice.org/2004/office" office:version="1.2" office:mimetype="application/vnd.oasis.opendocument.text">
<office:scripts><office:script script:language="ooo:Basic"><ooo:libraries>
<ooo:library-embedded ooo:name="Standard"><ooo:module ooo:name="M"><ooo:source-code>Sub Run
 Open Environ("TMPDIR") &amp; "/macro-ran" For Output As #1
 Close #1
End Sub</ooo:source-code></ooo:module></ooo:library-embedded></ooo:libraries></office:script>
<office:event-listeners><script:event-listener script:language="ooo:script" script:event-name="dom:load" xlink:href="vnd.sun.star.script:Standard.M.Run?language=Basic&amp;location=document" xlink:type="simple"/></office:event-listeners></office:scripts>
<office:body><office:text><text:p>A document with a macro.</text:p></office:text></office:body></office:document>`

// macroRuns checks that the macro works where macros may run.
func macroRuns(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	settings := strings.NewReplacer("<value>3</value>", "<value>0</value>", "<value>true</value>", "<value>false</value>").Replace(officeSettings)
	if err := errors.Join(os.MkdirAll(dir+"/profile/user", 0o700), os.WriteFile(dir+"/profile/user/registrymodifications.xcu", []byte(settings), 0o600),
		os.WriteFile(dir+"/a.fodt", []byte(macroDocument), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("soffice", "--headless", "--norestore", "-env:UserInstallation=file://"+dir+"/profile", dir+"/a.fodt")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	isolate(cmd)
	cmd.SysProcAttr.Pdeathsig = 0 // the parent-death signal belongs to a thread, which may end earlier
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		killGroup(cmd)
		_ = cmd.Wait() // it was killed
	}()
	waittest.Until(t, func() string {
		if _, err := os.Stat(dir + "/macro-ran"); err != nil {
			return "the macro has not run where it may: " + err.Error()
		}
		return ""
	})
}

func TestLibreOfficeRunsNoMacros(t *testing.T) {
	macroRuns(t)
	p := pool(t, func(o *PoolOptions) { o.Workers = 1 })
	if terms := p.run.officeOptions(t.Context()); len(terms.Parts) != 3 {
		t.Fatalf("of LibreOffice there is %v: make office installs it", terms.Parts)
	}
	p.run.user = parserUser()
	ran := make(chan bool, 1)
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		seen := false
		for watching.Err() == nil {
			if found, _ := filepath.Glob(filepath.Join(os.TempDir(), "sluice-office-*", "tmp", "macro-ran")); len(found) > 0 {
				seen = true
			}
		}
		ran <- seen
	}()
	flat := oldFormats[formatDOC]
	flat.from = "fodt"
	made, err := p.run.convert(t.Context(), flat, []byte(macroDocument), 1<<20, officeLimits{time: officeTime, memory: maxOfficeMemory, disk: maxOfficeDisk})
	stop()
	if err != nil || len(made) == 0 {
		t.Fatalf("it was not converted: %v", err)
	}
	if <-ran {
		t.Error("the macro ran")
	}
}
