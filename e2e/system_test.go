// Package e2e tests the whole system from outside: it builds the programs, runs them as processes,
// and uses them through the command line and the HTTP API. It reads the database only to check
// promises that can't be seen from outside.
package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
)

func TestMain(m *testing.M) {
	localtest.Main(m, localtest.Need{Postgres: true, Temporal: true})
}

// TestSluice contains all tests that use the built programs.
func TestSluice(t *testing.T) {
	p := build(t)
	// Each test starts its own servers.
	for _, part := range []struct {
		name string
		test func(*testing.T, programs)
	}{
		{"Faults", testFaults}, {"Up", testUp}, {"Crash", testCrash}, {"Workers", testWorkers}, {"Stopping", testStopping},
		{"FullDisk", testFullDisk}, {"EvaluationAlone", testEvaluationAlone}, {"MatrixAlone", testMatrixAlone}, {"Packs", testPacks}, {"Calibration", testCalibration}, {"RemoteModels", testRemoteModels}, {"Preferences", testPreferences}, {"Judge", testJudge}, {"Drill", testDrill},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(t, p)
		})
	}
}

// testUp runs one `sluice up` for all tests that don't disturb each other. Each uses its own
// collections or tenants.
func testUp(t *testing.T, p programs) {
	data := localtest.Dir(t)
	s := p.up(t, data, append(signInSettings(t), "SLUICE_SOURCE_ROOTS="+sourceRoot(data)+","+filepath.Join(docsDir(data), "documents"), "SLUICE_SEND_AUDIT=file://"+auditFile(data))...)
	t.Run("Examples", func(t *testing.T) { testExamples(t, s) })
	t.Run("Pages", func(t *testing.T) { testPages(t, s) })
	t.Run("Overview", func(t *testing.T) { testOverview(t, s) })
	t.Run("MCP", func(t *testing.T) { testMCP(t, s) })
	t.Run("Chat", func(t *testing.T) { testChat(t, s) })
	t.Run("Changes", func(t *testing.T) { testChanges(t, s) })
	t.Run("Races", func(t *testing.T) { testRaces(t, s) })
	t.Run("Filter", func(t *testing.T) { testFilter(t, s) })
	t.Run("Labels", func(t *testing.T) { testLabels(t, s) })
	t.Run("Hostile", func(t *testing.T) { testHostile(t, s) })
	t.Run("Encodings", func(t *testing.T) { testEncodings(t, s) })
	t.Run("Quality", func(t *testing.T) { testQuality(t, s) })
	t.Run("Evaluation", func(t *testing.T) { testEvaluation(t, s) })
	t.Run("ConvertedDatasets", func(t *testing.T) { testConvertedDatasets(t, s) })
	t.Run("Ratings", func(t *testing.T) { testRatings(t, s) })
	t.Run("InterruptedEvaluation", func(t *testing.T) { testInterruptedEvaluation(t, s) })
	t.Run("Matrix", func(t *testing.T) { testMatrix(t, s) })
	t.Run("Rebuild", func(t *testing.T) { testRebuild(t, s) })
	t.Run("Jobs", func(t *testing.T) { testJobs(t, s) })
	t.Run("Plans", func(t *testing.T) { testPlans(t, s) })
	t.Run("PlanChoice", func(t *testing.T) { testPlanChoice(t, s) })
	t.Run("Tenants", func(t *testing.T) { testTenants(t, s) })
	t.Run("Isolation", func(t *testing.T) { testIsolation(t, s) })
	t.Run("Canary", func(t *testing.T) { testCanary(t, s) })
	t.Run("Audit", func(t *testing.T) { testAudit(t, s) })
	t.Run("SignIn", func(t *testing.T) { testSignIn(t, s) })
	t.Run("Scopes", func(t *testing.T) { testScopes(t, s) })
	t.Run("Idempotency", func(t *testing.T) { testIdempotency(t, s) })
	t.Run("Problems", func(t *testing.T) { testProblems(t, s) })
	t.Run("Usage", func(t *testing.T) { testUsage(t, s) })
	t.Run("PlainQuestions", func(t *testing.T) { testPlainQuestions(t, s) })
	t.Run("Filings", func(t *testing.T) { testFilings(t, s) })
	t.Run("Places", func(t *testing.T) { testPlaces(t, s) })
	t.Run("Sources", func(t *testing.T) { testSources(t, s) })
	t.Run("SourcePermissions", func(t *testing.T) { testSourcePermissions(t, s) })
	t.Run("Versions", func(t *testing.T) { testVersions(t, s) })
	t.Run("Reparse", func(t *testing.T) { testReparse(t, s) })
	t.Run("Receipts", func(t *testing.T) { testReceipts(t, s) })
	t.Run("Temporal", func(t *testing.T) { testTemporal(t, s) })
	t.Run("Restart", func(t *testing.T) { testRestart(t, p, s) })
}

// testRestart stops the server and starts it with the same data.
func testRestart(t *testing.T, p programs, before *server) {
	before.sluice(t, "ingest", write(t, map[string]string{"kept.txt": "The lighthouse keeper's logbook is bound in sealskin."}),
		"-c", "restart", "--wait").ok(t)
	before.stop(t)
	after := p.up(t, before.data)
	if after.key != before.key {
		t.Error("the API key is another one after a restart")
	}
	found := search(t, after, "restart", "What is the logbook bound in?")
	if len(found) == 0 || found[0].ExternalID != "kept.txt" {
		t.Errorf("after a restart the search finds %v", names(found))
	}
	// The command finds the server by a file in the data directory, which only its owner may read.
	if info, err := os.Stat(filepath.Join(after.data, "client.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the key: %v %v", info, err)
	}
	bare := after.withKey("")
	bare.url = ""
	result := bare.sluice(t, "collections", "list", "--data", after.data)
	result.ok(t).has(t, "restart")
	after.checkStored(t)
	after.stop(t)
}
