package modelpack

// This file writes the results of a calibration into a pack.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Numbers are the results of a calibration. Values that are nil stay as they are in the pack.
type Numbers struct {
	Similarity        *float64 // encoder.similarity_threshold
	PairHasAnswer     *float64 // pair.has_answer_threshold
	RerankerHasAnswer *float64
	Calibrated        map[string]float64 // by name
	// Confidence holds the numbers whose names begin with confidence_ and risk_, without
	// wire.RerankerSuffix. They replace all such numbers that the pack has for Graph.
	Confidence map[string]float64
	Graph      string // which graph Confidence is for: wire.GraphPair or wire.GraphReranker
	Detector   []Layer
	// DetectorThreshold is the threshold of Detector.
	DetectorThreshold float64
}

// calibratedMark matches the end of a calibrated pack's version.
var calibratedMark = regexp.MustCompile(`\+calibrated\.[0-9a-f]+$`)

// confidenceNames matches the names of the calibrated numbers of confidence.
var confidenceNames = regexp.MustCompile(`^(confidence_|risk_)`)

// Calibrate writes numbers into the pack in dir. check checks the new pack before it replaces the
// current files; nil: no check.
func Calibrate(ctx context.Context, dir string, n Numbers, check func(ctx context.Context, dir string) error) (err error) {
	d, err := readDocument(dir)
	if err != nil {
		return err
	}
	// check gets a folder with links to the files that stay.
	staged, err := os.MkdirTemp(dir, staging)
	if err != nil {
		return fmt.Errorf("make a folder for the calibrated pack: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staged)) }()
	graph, err := d.calibrate(staged, n)
	if err != nil {
		return err
	}
	data, err := d.bytes()
	if err != nil {
		return err
	}
	if _, err := write(staged, ManifestName, data); err != nil {
		return err
	}
	moved := []string{ManifestName}
	if graph != "" {
		if err := writeDetectorGoldens(dir, staged, n.Detector); err != nil {
			return err
		}
		moved = []string{graph, goldensName, ManifestName}
	}
	if check != nil {
		if err := linkFiles(d, dir, staged); err != nil {
			return err
		}
		if err := check(ctx, staged); err != nil {
			return fmt.Errorf("the calibrated pack does not work, and %s stays as it was: %w", dir, err)
		}
	}
	// The manifest comes last: until it is replaced, the pack is unchanged.
	for _, name := range moved {
		if err := os.Rename(filepath.Join(staged, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("put %s into the pack: %w", name, err)
		}
	}
	return removeDetectors(d, dir)
}

// removeDetectors removes the detectors of earlier calibrations.
func removeDetectors(d document, dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "detector-????????????.onnx"))
	if err != nil {
		return err
	}
	for _, path := range old {
		named := false
		_ = d.files(func(name, _ string) error {
			named = named || filepath.FromSlash(name) == filepath.Base(path)
			return nil
		})
		if !named {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// Calibratable returns an error if the pack at path was not added in dir, so that it must not be
// changed.
func Calibratable(dir, path string) error {
	name := filepath.Base(path)
	if isAdded(dir, name) && filepath.Join(dir, name) == path {
		return nil
	}
	return fmt.Errorf("the model pack %s was not added here and stays as it is: calibrate a copy, `sluice models add %s --name NAME`: %w", path, path, schema.ErrConflict)
}

// calibrate changes the manifest. If it writes a detector into dir, it returns the file's name.
func (d document) calibrate(dir string, n Numbers) (graph string, err error) {
	for _, s := range []struct {
		section, name string
		value         *float64
	}{
		{"encoder", "similarity_threshold", n.Similarity}, {"pair", "has_answer_threshold", n.PairHasAnswer}, {"reranker", "has_answer_threshold", n.RerankerHasAnswer},
	} {
		if s.value == nil {
			continue
		}
		section := get(d.root, s.section)
		if section == nil {
			return "", schema.Invalid(s.section, "is not in the pack")
		}
		if err := set(section, s.name, round4(*s.value)); err != nil {
			return "", err
		}
	}
	numbers := maps.Clone(n.Calibrated)
	if numbers == nil {
		numbers = map[string]float64{}
	}
	if n.Confidence != nil {
		suffix := ""
		if n.Graph == wire.GraphReranker {
			suffix = wire.RerankerSuffix
		}
		d.forget(func(name string) bool {
			return confidenceNames.MatchString(name) && isRerankerThreshold(name) == (suffix != "")
		})
		for name, v := range n.Confidence {
			numbers[name+suffix] = v
		}
	}
	if len(numbers) > 0 {
		if get(d.root, "calibrated") == nil {
			if err := set(d.root, "calibrated", map[string]float64{}); err != nil {
				return "", err
			}
		}
		section := get(d.root, "calibrated")
		section.Style = 0
		for _, name := range slices.Sorted(maps.Keys(numbers)) {
			if err := set(section, name, round4(numbers[name])); err != nil {
				return "", err
			}
		}
	}
	if n.Detector != nil {
		data, err := detectorGraph(n.Detector)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		hash := hex.EncodeToString(sum[:])
		graph = "detector-" + hash[:12] + ".onnx"
		if _, err := write(dir, graph, data); err != nil {
			return "", err
		}
		if err := set(d.root, "detector", struct {
			fileSection `yaml:",inline"`
			Threshold   float64 `yaml:"threshold"`
		}{fileSection{graph, hash}, round4(n.DetectorThreshold)}); err != nil {
			return "", err
		}
	}
	// Change the version, so that model servers with the old pack can be told apart.
	data, err := d.bytes()
	if err != nil {
		return "", err
	}
	version := ""
	if v := get(d.root, "version"); v != nil {
		version = calibratedMark.ReplaceAllString(v.Value, "")
	}
	sum := sha256.Sum256(data)
	return graph, set(d.root, "version", version+"+calibrated."+hex.EncodeToString(sum[:3]))
}

// round4 rounds x to four decimal places.
func round4(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// linkFiles links the files of a manifest that are missing in staged.
func linkFiles(d document, dir, staged string) error {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	linkFile := func(name string) error {
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return schema.Invalid(ManifestName, "%q leaves the pack's folder", name)
		}
		target := filepath.Join(staged, local)
		if _, err := os.Lstat(target); err == nil {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.Symlink(filepath.Join(absolute, local), target)
	}
	if _, err := os.Stat(filepath.Join(dir, goldensName)); err == nil {
		if err := linkFile(goldensName); err != nil {
			return err
		}
	}
	return d.files(func(name, _ string) error { return linkFile(name) })
}
