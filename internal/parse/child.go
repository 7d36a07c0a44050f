package parse

// The child's side of a Pool.

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/sluice-rag/sluice/schema"
)

// parseFunc is Parse, or a test's stand-in that hangs or dies.
type parseFunc func(ctx context.Context, name, mediaHint string, data []byte, limits Limits) (schema.Parsed, error)

// RunChild parses what a Pool sends on stdin and answers on stdout until stdin
// ends. It is what the command of PoolOptions runs; nothing else in that process
// may write to stdout.
func RunChild(stdin io.Reader, stdout io.Writer) error {
	return serve(stdin, stdout, prepare, Parse)
}

// prepare makes ready what files of a kind need, once per process: on a machine
// that has not compiled pdfium before it takes seconds, which are not the file's.
func prepare(data []byte) {
	if isPDF(data) {
		preparePDF()
	}
}

func serve(stdin io.Reader, stdout io.Writer, prepare func([]byte), parse parseFunc) error {
	in := bufio.NewReaderSize(stdin, 64<<10)
	for {
		req, err := readRequest(in)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if pdfiumRuntime.cacheDir == "" {
			pdfiumRuntime.cacheDir = req.CacheDir
		}
		prepare(req.data)
		// From here on the time is the file's, and a death of this process its doing.
		if err := writeFrame(stdout, nil); err != nil {
			return err
		}
		parsed, err := parse(context.Background(), req.Name, req.MediaHint, req.data, req.Limits)
		req.data = nil
		if err := writeReply(stdout, replyOf(parsed, err)); err != nil {
			return err
		}
	}
}
