package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice/cmd/internal/mcpserver"
	"github.com/sluice-rag/sluice/internal/config"
)

// mcpCommand speaks the Model Context Protocol over standard input and output, for programs that
// start MCP servers themselves.
type mcpCommand struct{ config.Client }

func (m *mcpCommand) Run(ctx context.Context) error {
	c, err := remote{Client: m.Client}.client()
	if err != nil {
		return err
	}
	if _, err := c.WhoAmI(ctx); err != nil {
		return err
	}
	err = mcpserver.New(c, version).Run(ctx, mcpserver.Answering(&mcp.StdioTransport{}))
	if err == nil || errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("speak the model context protocol: %w", err)
}
