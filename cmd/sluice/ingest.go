package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type ingestCommand struct {
	remote
	Paths        []string `arg:"" name:"path" help:"Folders, files, ZIP archives (each entry is a document), globs, or BEIR folders (with a corpus.jsonl). A document's external id is its path in the folder or archive, or the name of a file that is given by itself."`
	Collection   string   `required:"" short:"c" help:"Name or id; made when it does not exist."`
	Label        []string `short:"l" sep:"none" help:"Who may see them: keys with this group; may be repeated. None: everyone in the tenant."`
	Metadata     []string `short:"m" sep:"none" placeholder:"KEY=VALUE" help:"Metadata to filter on; may be repeated."`
	Prefix       string   `help:"Put before every external id."`
	Language     string   `default:"en" help:"Language of a collection that is made."`
	Segmentation string   `placeholder:"BY[,SETTING=N]" help:"How sections become passages in a collection that is made: segmenter (when left out), similarity, sentences or recursive, and settings."`
	Wait         bool     `short:"w" help:"Wait until every document is ready; exit with 1 and name the failures if any failed."`
	Parallel     int      `default:"4" help:"Uploads at once."`
}

// Sizes of one compare request and one upload request. A file larger than soloBytes is streamed in
// a request of its own.
const (
	compareCount = 1000
	uploadCount  = 64
	uploadBytes  = 4 << 20
	soloBytes    = 1 << 20
)

// summary is what `ingest --json` prints.
type summary struct {
	Collection string    `json:"collection"`
	Found      int       `json:"found"`
	Uploaded   int       `json:"uploaded"`
	Unchanged  int       `json:"unchanged"`
	Ready      int       `json:"ready"`
	Failed     int       `json:"failed"`
	Failures   []failure `json:"failures"`
	Seconds    float64   `json:"seconds"`
}

type failure struct {
	Document string `json:"document"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}

// ingestion is one run of the command.
type ingestion struct {
	*ingestCommand
	client *apiclient.Client

	mu       sync.Mutex
	summary  summary
	sent     map[string]bool // external ids of uploads whose outcome is not known yet
	progress *progress
}

func (c *ingestCommand) Run(ctx context.Context) error {
	if c.Parallel < 1 {
		return schema.Invalid("parallel", "must be at least 1")
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	metadata, err := parseMetadata(c.Metadata)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := c.ensure(ctx, client); err != nil {
		return err
	}
	run := &ingestion{ingestCommand: c, client: client, sent: map[string]bool{}, progress: newProgress(os.Stderr, c.JSON)}
	run.summary.Collection, run.summary.Failures = c.Collection, []failure{}
	err = run.upload(ctx, schema.Attributes{Labels: c.Label, Metadata: metadata})
	if err == nil && c.Wait {
		err = run.wait(ctx)
	}
	run.progress.end()
	run.summary.Seconds = time.Since(begin).Seconds()
	if taken := run.summary.Uploaded + run.summary.Unchanged; err != nil && taken > 0 {
		return fmt.Errorf("%w\n%s accepted; run the same command again to continue", err, plural(taken, "document"))
	}
	if err != nil {
		return err
	}
	return run.report()
}

// ensure creates the collection if it does not exist.
func (c *ingestCommand) ensure(ctx context.Context, client *apiclient.Client) error {
	segmentation, err := schema.ParseSegmentation(c.Segmentation)
	if err != nil {
		return err
	}
	_, err = client.Collection(ctx, c.Collection)
	if !apiclient.IsStatus(err, http.StatusNotFound) {
		return err
	}
	collection := api.NewCollection{Name: c.Collection, Language: c.Language}
	if c.Segmentation != "" {
		collection.Segmentation = &segmentation
	}
	_, err = client.CreateCollection(ctx, collection)
	if apiclient.IsStatus(err, http.StatusConflict) { // someone else has just created it
		return nil
	}
	return err
}

// upload uploads the documents that the server does not have, in the order in which they are found.
func (r *ingestion) upload(ctx context.Context, common schema.Attributes) error {
	uploads, ctx := errgroup.WithContext(ctx)
	uploads.SetLimit(r.Parallel)
	var pending []source
	flush := func() error {
		if len(pending) == 0 {
			return nil
		}
		changed, err := r.compare(ctx, pending)
		pending = nil
		if err != nil {
			return err
		}
		for _, group := range grouped(changed) {
			uploads.Go(func() error { return r.send(ctx, group) })
		}
		return nil
	}
	walk := func() error {
		for s, err := range sources(r.Paths, r.Prefix, common) {
			var skip *unreadable
			switch {
			case errors.As(err, &skip):
				r.fail(failure{Document: skip.path, Code: "unreadable", Message: skip.Error()})
				continue
			case err != nil:
				return err
			case ctx.Err() != nil:
				return context.Cause(ctx)
			}
			pending = append(pending, s)
			r.progress.found(1)
			if len(pending) == compareCount {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	}
	walked := walk()
	// If an upload failed and so cancelled the walk, its error is the cause.
	if err := uploads.Wait(); err != nil {
		return err
	}
	return walked
}

// compare returns the documents that the server does not have, or has with other content.
func (r *ingestion) compare(ctx context.Context, documents []source) ([]source, error) {
	known := make([]api.Fingerprint, len(documents))
	for i, d := range documents {
		known[i] = api.Fingerprint{ExternalID: d.externalID, Fingerprint: d.fingerprint}
	}
	result, err := r.client.Compare(ctx, r.Collection, known)
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for _, id := range result.Changed {
		changed[id] = true
	}
	var out []source
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Found += len(documents)
	for _, d := range documents {
		r.sent[d.externalID] = true
		if changed[d.externalID] {
			out = append(out, d)
		}
	}
	r.summary.Unchanged += len(documents) - len(out)
	r.progress.uploaded(len(documents) - len(out))
	return out, nil
}

// grouped splits documents into upload requests.
func grouped(documents []source) [][]source {
	var out [][]source
	var group []source
	var size int64
	for _, d := range documents {
		if d.bytes > soloBytes {
			out = append(out, []source{d})
			continue
		}
		if len(group) == uploadCount || size+d.bytes > uploadBytes {
			out, group, size = append(out, group), nil, 0
		}
		group, size = append(group, d), size+d.bytes
	}
	if len(group) > 0 {
		out = append(out, group)
	}
	return out
}

func (r *ingestion) send(ctx context.Context, group []source) error {
	done, err := r.sendGroup(ctx, group)
	var refused *api.Problem
	if errors.As(err, &refused) && len(group) > 1 && refused.Status >= 400 && refused.Status < 500 && refused.Status != http.StatusUnauthorized {
		// One bad document makes its request fail. Send the documents one by one to find it.
		for _, d := range group {
			if err := r.send(ctx, []source{d}); err != nil {
				return err
			}
		}
		return nil
	}
	if errors.As(err, &refused) && (refused.Status == http.StatusUnprocessableEntity || refused.Status == http.StatusRequestEntityTooLarge) {
		r.fail(failure{Document: group[0].externalID, Code: "refused", Message: refused.Error()})
		return nil
	}
	if err != nil {
		return fmt.Errorf("upload %s: %w", group[0].externalID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Uploaded += len(done)
	r.progress.uploaded(len(done))
	return nil
}

func (r *ingestion) sendGroup(ctx context.Context, group []source) ([]api.Uploaded, error) {
	if len(group) == 1 && group[0].bytes > soloBytes {
		d := group[0]
		f := apiclient.File{ExternalID: d.externalID, FileName: filepath.Base(d.fileName), MediaType: d.media(),
			Title: d.attributes.Title, Labels: d.attributes.Labels, SHA256: d.sha256, Bytes: d.bytes, Open: d.open}
		if len(d.attributes.Metadata) > 0 {
			data, err := json.Marshal(d.attributes.Metadata)
			if err != nil {
				return nil, fmt.Errorf("encode metadata: %w", err)
			}
			f.Metadata = string(data)
		}
		one, err := r.client.UploadFile(ctx, r.Collection, f)
		return []api.Uploaded{one}, err
	}
	documents := make([]api.NewDocument, len(group))
	for i, d := range group {
		content, err := read(d)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", d.fileName, err)
		}
		documents[i] = api.NewDocument{ExternalID: d.externalID, Title: d.attributes.Title, MediaType: d.media(),
			Labels: d.attributes.Labels, Metadata: d.attributes.Metadata}
		// Text arrives as the same bytes, and saves encoding and checking base64.
		if utf8.Valid(content) {
			documents[i].Text = string(content)
		} else {
			documents[i].Content = content
		}
	}
	return r.client.Upload(ctx, r.Collection, documents)
}

func read(d source) ([]byte, error) {
	content, err := d.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	return io.ReadAll(content)
}

// media returns the media type of an upload.
func (s source) media() string {
	if s.mediaType != "" {
		return s.mediaType
	}
	t, _, err := mime.ParseMediaType(mime.TypeByExtension(filepath.Ext(s.fileName)))
	if err != nil {
		return ""
	}
	return t
}

func (r *ingestion) fail(f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Failed++
	r.summary.Failures = append(r.summary.Failures, f)
}

func (r *ingestion) report() error {
	s := r.summary
	if r.JSON {
		if err := printJSON(s); err != nil {
			return err
		}
	} else {
		fmt.Printf("%s: %s found, %d uploaded, %d unchanged", s.Collection, plural(s.Found, "document"), s.Uploaded, s.Unchanged)
		if r.Wait {
			fmt.Printf("; %d ready, %d failed", s.Ready, s.Failed)
		}
		fmt.Printf(" in %.1f s\n", s.Seconds)
		if !r.Wait && s.Uploaded > 0 {
			fmt.Println("They are being processed: 'sluice collections list' says how many are ready, " +
				"'sluice documents list' why some failed.")
		}
		for _, f := range s.Failures {
			fmt.Fprintf(os.Stderr, "failed  %s  %s: %s\n", printable(f.Document), f.Code, printable(f.Message))
		}
	}
	if s.Failed > 0 {
		return errSilent
	}
	return nil
}
