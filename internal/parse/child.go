package parse

// The child's side of a Pool.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/sluice-rag/sluice/schema"
)

// parseFunc is the type of parseFile, or of a test's replacement that hangs or dies.
type parseFunc func(ctx context.Context, name, mediaHint string, data []byte, limits Limits, ocr *ocrSession) (schema.Parsed, error)

// RunChild parses the files that a Pool sends on stdin and answers on stdout until stdin ends. The
// command of PoolOptions must call it; nothing else in that process may write to stdout.
func RunChild(stdin io.Reader, stdout io.Writer) error {
	in, err := readSandbox()
	if err != nil {
		return err
	}
	if in.Compile {
		return in.compile()
	}
	if in.Program != nil {
		return in.execProgram()
	}
	pdfiumRuntime.cacheDir = in.CacheDir
	return serve(stdin, stdout, in.confine(), prepare, parseFile)
}

// compile fills the cache of compiled code.
func (c sandbox) compile() error {
	pool, err := openPDF(c.CacheDir)
	if err == nil {
		err = pool.Close()
	}
	if err != nil || c.User == 0 {
		return err
	}
	return makeReadableForAll(c.CacheDir)
}

// prepare initialises what files of this kind need, once per process. On a machine that has not
// compiled pdfium yet, this takes seconds, which do not count as the file's time.
func prepare(data []byte) {
	if isPDF(data) {
		preparePDF()
	}
}

func serve(stdin io.Reader, stdout io.Writer, confined Confinement, prepare func([]byte), parse parseFunc) error {
	report, err := json.Marshal(confined)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(stdin, 64<<10)
	var use settings
	for {
		req, err := readRequest(in)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if req.Settings != nil {
			use = *req.Settings
		}
		prepare(req.data)
		// From here on time counts as the file's, and the file is blamed if this process dies.
		if err := writeFrame(stdout, report); err != nil {
			return err
		}
		report = nil
		session := &ocrSession{options: use.OCR, office: use.Office, in: in, out: stdout}
		parsed, err := parse(context.Background(), req.Name, req.MediaHint, req.data, use.Limits, session)
		req.data = nil
		if err := writeReply(stdout, replyOf(parsed, err)); err != nil {
			return err
		}
	}
}
