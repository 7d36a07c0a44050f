package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/cmd/internal/ingestworker"
	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/parse"
	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/schema"
)

type verifyCommand struct {
	remote
	Answer  string `arg:"" optional:"" name:"answer" help:"Id of the question, whose receipt and files are fetched from the server; or a --receipt."`
	Receipt string `type:"path" placeholder:"FILE" help:"A receipt that was saved; no server is asked."`
	Key     string `type:"path" placeholder:"FILE" help:"Public keys that are trusted; those that the server says when empty."`
	Files   string `type:"path" placeholder:"DIR" help:"Folder with the cited files, under whatever names; those that are not in it are fetched, unless there is a --receipt."`
	Save    string `type:"path" placeholder:"DIR" help:"Folder for the receipt (receipt.json), the keys (keys.txt) and the files, to be verified later without the server."`
	config.Parse
}

func (v *verifyCommand) Run(ctx context.Context) error {
	var from evidence
	var err error
	switch {
	case (v.Receipt == "") == (v.Answer == ""):
		return schema.Invalid("answer", "name a question by its id, or a --receipt")
	case v.Receipt == "":
		from, err = v.fetch(ctx)
	case v.Key == "" || v.Files == "":
		return schema.Invalid("receipt", "needs the --key that is trusted and the --files that are cited")
	case v.Save != "":
		return schema.Invalid("save", "applies to a receipt fetched from a server; a --receipt is already a file")
	default:
		from, err = v.read()
	}
	if err != nil {
		return err
	}
	opened, err := receipt.Open(from.receipt, from.keys)
	if err != nil {
		return fmt.Errorf("the receipt is refused: %w", err)
	}
	proofs, err := v.prove(ctx, opened, from)
	if err != nil {
		return err
	}
	return v.print(opened, proofs)
}

// evidence is what a proof of an answer starts from.
type evidence struct {
	receipt []byte
	keys    []receipt.PublicKey
	server  *apiclient.Client // serves files; nil: no server is asked
}

// read reads a saved receipt.
func (v *verifyCommand) read() (out evidence, err error) {
	if out.receipt, err = readLimited(v.Receipt, receipt.MaxBytes+1); err != nil {
		return out, err
	}
	out.keys, err = v.trusted()
	return out, err
}

func (v *verifyCommand) trusted() ([]receipt.PublicKey, error) {
	text, err := readLimited(v.Key, 1<<20)
	if err != nil {
		return nil, err
	}
	keys, err := receipt.ParsePublic(string(text))
	if err != nil {
		return nil, fmt.Errorf("read the keys in %s: %w", v.Key, err)
	}
	return keys, nil
}

// fetch fetches a receipt from the server, and the server's keys unless --key is set.
func (v *verifyCommand) fetch(ctx context.Context) (out evidence, err error) {
	id, err := uuid.Parse(v.Answer)
	if err != nil {
		return out, schema.Invalid("answer", "%q is not the id of a question", v.Answer)
	}
	if out.server, err = v.client(); err != nil {
		return out, err
	}
	if out.receipt, err = out.server.Receipt(ctx, id, receipt.MaxBytes+1); err != nil {
		return out, err
	}
	if v.Key != "" {
		out.keys, err = v.trusted()
	} else {
		out.keys, err = served(ctx, out.server)
	}
	if err != nil {
		return out, err
	}
	var keys strings.Builder
	for _, key := range out.keys {
		keys.WriteString(key.String() + "\n")
	}
	return out, errors.Join(v.save("receipt.json", out.receipt), v.save("keys.txt", []byte(keys.String())))
}

func served(ctx context.Context, c *apiclient.Client) ([]receipt.PublicKey, error) {
	keys, err := c.ReceiptKeys(ctx)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, key := range keys {
		text.WriteString(key.Key + "\n")
	}
	out, err := receipt.ParsePublic(text.String())
	if err != nil {
		return nil, fmt.Errorf("read the server's keys: %w", err)
	}
	return out, nil
}

func (v *verifyCommand) save(name string, data []byte) error {
	if v.Save == "" {
		return nil
	}
	err := os.MkdirAll(v.Save, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(v.Save, name), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save what was fetched: %w", err)
	}
	return nil
}

func (v *verifyCommand) prove(ctx context.Context, opened receipt.Receipt, from evidence) (proofs []receipt.Proof, err error) {
	v.ParseWorkers = 1
	parsers, err := ingestworker.Parsers(v.Parse)
	if err != nil {
		return nil, err
	}
	if err := parsers.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, parsers.Stop(context.WithoutCancel(ctx))) }()
	return opened.Prove(ctx, receipt.Sources{
		Bytes: func(ctx context.Context, c receipt.CitedQuote) ([]byte, error) { return v.bytes(ctx, from.server, c) },
		Parse: func(ctx context.Context, f receipt.CitedFile, data []byte) (schema.Parsed, error) {
			return parsers.ParseFile(ctx, parse.NamedFile{Name: f.Name, MediaType: f.MediaType, Language: f.Language, Data: data})
		},
	})
}

// bytes returns the file of a citation, from the folder or the server.
func (v *verifyCommand) bytes(ctx context.Context, server *apiclient.Client, c receipt.CitedQuote) ([]byte, error) {
	if v.Files != "" {
		data, err := findFile(v.Files, c)
		if err == nil || server == nil {
			return data, err
		}
	}
	data, err := server.Content(ctx, c.DocumentID, c.Version, c.File.Bytes+1)
	if err != nil {
		return nil, fmt.Errorf("its bytes cannot be fetched: %w", err)
	}
	return data, v.save(c.Version.String(), data)
}

// findFile finds the file of a citation in a folder: the one that is named after its version, or
// one with its hash.
func findFile(dir string, c receipt.CitedQuote) ([]byte, error) {
	data, err := readLimited(filepath.Join(dir, c.Version.String()), c.File.Bytes+1)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	found := ""
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() != c.File.Bytes {
			return err
		}
		sum, err := fileSum(path)
		if err == nil && sum == c.File.SHA256 {
			found = path
			return fs.SkipAll
		}
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("look for the file: %w", err)
	case found == "":
		return nil, fmt.Errorf("no file in %s has its %d bytes with the SHA-256 %s", dir, c.File.Bytes, c.File.SHA256)
	}
	return readLimited(found, c.File.Bytes+1)
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readLimited reads up to limit bytes of a file. A larger file is not the expected one.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, limit))
}

// verifyResult is what is printed as JSON.
type verifyResult struct {
	Proved    bool            `json:"proved"`
	Receipt   receipt.Receipt `json:"receipt"`
	Citations []provedPart    `json:"citations"`
}

type provedPart struct {
	File    bool   `json:"file"`
	Text    bool   `json:"text"`
	Place   bool   `json:"place"`
	Problem string `json:"problem,omitempty"`
}

func (v *verifyCommand) print(r receipt.Receipt, proofs []receipt.Proof) error {
	out := verifyResult{Receipt: r, Citations: []provedPart{}}
	proved := 0
	for _, p := range proofs {
		out.Citations = append(out.Citations, provedPart{p.FileProved, p.TextProved, p.PlaceProved, p.Problem})
		if p.Proved() {
			proved++
		}
	}
	out.Proved = proved == len(proofs)
	if v.JSON {
		if err := printJSON(out); err != nil {
			return err
		}
	} else {
		printProofs(r, proofs, proved)
	}
	if !out.Proved {
		return errSilent
	}
	return nil
}

func printProofs(r receipt.Receipt, proofs []receipt.Proof, proved int) {
	fmt.Printf("The signature is proved: the holder of key %s says that\n", r.Key)
	fmt.Printf("question %s, answered %s\n", r.QuestionID, printable(r.AnsweredAt))
	indent(os.Stdout, "  ", r.Question, 96)
	fmt.Printf("was answered by plan %s (SHA-256 %s), model pack %s\n", printable(r.Plan.Name), printable(cmp.Or(r.Plan.SHA256, "not kept")), packOf(r.Pack))
	indent(os.Stdout, "  ", r.Answer, 96)
	for i, p := range proofs {
		fmt.Printf("[%d] %s, version %s\n", i+1, printable(p.Document), p.Version)
		if p.FileProved {
			fmt.Printf("    proved: the file's SHA-256 %s, %d bytes\n", p.File.SHA256, p.File.Bytes)
		}
		if p.TextProved {
			fmt.Printf("    proved: the quote, at bytes %d to %d of section %d\n", p.Start, p.End, p.Section)
		}
		if p.PlaceProved && p.Page > 0 {
			fmt.Printf("    proved: its place, page %d, %d boxes\n", p.Page, len(p.Boxes))
		}
		if p.Problem != "" {
			fmt.Printf("    NOT PROVED: %s\n", printable(p.Problem))
		}
	}
	switch {
	case len(proofs) == 0:
		fmt.Println("It cites nothing, so only the signature had to be proved.")
	case proved < len(proofs):
		fmt.Printf("%d of %d citations are proved.\n", proved, len(proofs))
	default:
		fmt.Printf("All %d citations are proved.\n", proved)
	}
}

func packOf(p receipt.AnsweringPack) string {
	if p.Name == "" {
		return "not kept"
	}
	return printable(fmt.Sprintf("%s %s (SHA-256 %s)", p.Name, p.Version, cmp.Or(p.SHA256, "not kept")))
}
