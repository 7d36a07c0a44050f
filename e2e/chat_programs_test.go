package e2e

// This file asks in chats with OpenAI's client for Go and on the command line.

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// chatSeen is the output of the programs in tools/chat: the replies as OpenAI's clients read them.
type chatSeen struct {
	Models          []string
	Model           string
	Answer, Stream  chatSaid
	FollowUp        chatSaid `json:"follow_up"`
	Tools           chatRefusal
	NoModel         chatRefusal `json:"no_model"`
	NoModelStreamed chatRefusal `json:"no_model_streamed"`
}

type chatSaid struct {
	Content, Finish, Standalone string
	Annotations                 []struct {
		Start, End int
		Title, URL string
	}
	Tokens int
}

type chatRefusal struct {
	Status            int
	Type, Param, Code string
}

// useClient runs one of the programs in tools/chat, and compares what its client read with the
// replies over plain HTTP.
func useClient(t *testing.T, s *server, more []string, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append(args, "marrowick", lighthouse, tall)...)
	cmd.Env = append(s.env("OPENAI_BASE_URL="+s.url+"/v1", "OPENAI_API_KEY="+s.key), more...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, problems.String())
	}
	var seen chatSeen
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("%s printed %s: %v", program, out, err)
	}
	want := s.chat(t, chatBody("marrowick", nil, lighthouse))
	message := want.Choices[0].Message
	if !slices.Contains(seen.Models, "marrowick") || !slices.Contains(seen.Models, "marrowick/bm25") {
		t.Errorf("the client lists %v", seen.Models)
	}
	if seen.Model != "marrowick/bm25" {
		t.Errorf("the client retrieves %q", seen.Model)
	}
	for name, said := range map[string]chatSaid{"answer": seen.Answer, "stream": seen.Stream} {
		if said.Content != message.Content || said.Finish != "stop" || len(said.Annotations) != len(message.Annotations) || said.Tokens != want.Usage.TotalTokens {
			t.Errorf("the client's %s is %+v, and HTTP gives %+v", name, said, want)
			continue
		}
		for i, a := range said.Annotations {
			if c := message.Annotations[i].URLCitation; a.Start != c.StartIndex || a.End != c.EndIndex || a.Title != c.Title || a.URL != c.URL {
				t.Errorf("the client's %s has the annotation %+v, and HTTP gives %+v", name, a, c)
			}
		}
	}
	if seen.FollowUp.Standalone != tallWhole || !strings.Contains(seen.FollowUp.Content, "43") {
		t.Errorf("the client's follow-up is %+v", seen.FollowUp)
	}
	for name, c := range map[string]struct{ got, want chatRefusal }{
		"tools":            {seen.Tools, chatRefusal{http.StatusUnprocessableEntity, "invalid_request_error", "tools", "unsupported_parameter"}},
		"no model":         {seen.NoModel, chatRefusal{http.StatusNotFound, "invalid_request_error", "model", "model_not_found"}},
		"no model to tell": {seen.NoModelStreamed, chatRefusal{http.StatusNotFound, "invalid_request_error", "model", "model_not_found"}},
	} {
		if c.got != c.want {
			t.Errorf("%s: the client's error is %+v, not %+v", name, c.got, c.want)
		}
	}
}

// testGoClient uses OpenAI's client for Go. `make test-chat` tests those for JavaScript and Python.
func testGoClient(t *testing.T, s *server) {
	program := filepath.Join(t.TempDir(), "chat")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = filepath.Join(s.repository, "tools", "chat"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build in tools/chat: %v\n%s", err, out)
	}
	useClient(t, s, nil, program)
}

func testChatCommand(t *testing.T, s *server) {
	cmd := exec.CommandContext(t.Context(), s.path("sluice"), "chat", "-c", "marrowick")
	cmd.Env = s.env("SLUICE_URL="+s.url, "SLUICE_API_KEY="+s.key)
	cmd.Stdin = strings.NewReader(lighthouse + "\n\n" + tall + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil || !containsAll(string(out), []string{"Elspeth Tarn", "lighthouse.txt", "43", tallWhole}) {
		t.Errorf("sluice chat: %v\n%s", err, out)
	}
}
