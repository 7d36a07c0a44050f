package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/local/localtest"
)

func TestMain(m *testing.M) {
	localtest.Main(m, localtest.Need{Leaks: []goleak.Option{
		// rclone leaves this goroutine behind if it can't open a OneDrive.
		goleak.IgnoreTopFunction("github.com/rclone/rclone/lib/oauthutil.(*Renew).renewOnExpiry"),
	}})
}
