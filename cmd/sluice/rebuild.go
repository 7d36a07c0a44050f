package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// pollInterval is the interval between polls of a run.
const pollInterval = 500 * time.Millisecond

type collectionsRebuild struct {
	remote
	Name         string `arg:"" help:"Name or id."`
	Language     string `help:"BCP 47; the collection's own when left out."`
	Segmentation string `placeholder:"BY[,SETTING=N]" help:"How sections become passages: segmenter, similarity, sentences or recursive, and settings; the collection's own when left out."`
	Encoder      string `enum:",auto,first,second" default:"" help:"Whose vectors: the model pack's (first), the second encoder's (second), or the first's until the second has encoded the collection in the background (auto); the collection's own when left out."`
	Wait         bool   `help:"Wait until it is done."`
	Status       bool   `xor:"do" help:"Show the newest rebuild and begin none."`
	Cancel       bool   `xor:"do" help:"Cancel the rebuild that is under way."`
}

func (b *collectionsRebuild) Run(ctx context.Context) error {
	segmentation, err := segmentationOf(b.Segmentation)
	if err != nil {
		return err
	}
	c, err := b.client()
	if err != nil {
		return err
	}
	var r schema.Rebuild
	switch {
	case b.Cancel:
		r, err = c.CancelRebuild(ctx, b.Name)
	case b.Status:
		r, err = c.Rebuild(ctx, b.Name)
	default:
		r, err = c.StartRebuild(ctx, b.Name, api.NewRebuild{Language: b.Language, Segmentation: segmentation, Encoder: schema.Encoder(b.Encoder)})
	}
	if err == nil && b.Wait {
		r, err = b.wait(ctx, c, r)
	}
	if err != nil {
		return err
	}
	if b.JSON {
		if err := printJSON(r); err != nil {
			return err
		}
	} else {
		fmt.Println(rebuildText(r))
	}
	if b.Wait && r.State != schema.GenerationLive {
		return fmt.Errorf("generation %d did not go live: it is %s", r.Generation, r.State)
	}
	return nil
}

type collectionsRecluster struct {
	remote
	Name          string `arg:"" help:"Name or id."`
	ClusterTokens int    `placeholder:"N" help:"The most tokens that the sections of a cluster may have together, from now on: 1000 to 64000, 4000 at first; as before when left out."`
}

func (r *collectionsRecluster) Run(ctx context.Context) error {
	c, err := r.client()
	if err != nil {
		return err
	}
	if err := c.Recluster(ctx, r.Name, api.NewClusters{ClusterTokens: r.ClusterTokens}); err != nil {
		return err
	}
	if r.JSON {
		return printJSON(map[string]string{"recluster": r.Name})
	}
	fmt.Println("curation will rebuild the clusters of " + r.Name + "; until then queries use the existing clusters")
	return nil
}

// wait polls the rebuild until it has ended.
func (b *collectionsRebuild) wait(ctx context.Context, c *apiclient.Client, r schema.Rebuild) (schema.Rebuild, error) {
	return follow(ctx, r, followedRun[schema.Rebuild]{
		quiet:   b.JSON,
		number:  func(r schema.Rebuild) int { return r.Generation },
		running: func(r schema.Rebuild) bool { return r.State == schema.GenerationBuilding },
		text:    rebuildText,
		poll:    func(ctx context.Context) (schema.Rebuild, error) { return c.Rebuild(ctx, b.Name) },
		other:   func(n int) string { return fmt.Sprintf("another rebuild, of generation %d,", n) },
	})
}

func rebuildText(r schema.Rebuild) string {
	encoder := ""
	if r.Encoder == schema.EncoderSecond {
		encoder = ", second encoder"
	}
	text := fmt.Sprintf("generation %d (%s, %s%s): %s", r.Generation, r.Language, r.Segmentation.By, encoder, r.State)
	switch r.State {
	case schema.GenerationBuilding:
		text += fmt.Sprintf(", %d of %d documents", min(r.Versions, r.Total), r.Total)
	case schema.GenerationLive, schema.GenerationRetired:
		text += fmt.Sprintf(", %d passages", r.Passages)
	case schema.GenerationFailed:
		text += ": " + r.Reason
	}
	return text
}
