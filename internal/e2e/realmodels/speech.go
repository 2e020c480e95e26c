//go:build real

package realmodels

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The models of SpeechServer.
const (
	FliteModel  = "flite"
	SphinxModel = "pocketsphinx"
)

// DigitTexts are texts that Flite speaks and PocketSphinx hears as they are, every time: neither leaves
// anything to chance.
var DigitTexts = []string{
	"three one four one five", "zero one two three four five six seven eight nine", "five five two nine",
}

// digitGrammar is all that PocketSphinx listens for.
const digitGrammar = `#JSGF V1.0;
grammar digits;
public <digits> = (zero | one | two | three | four | five | six | seven | eight | nine)+;
`

// commandTimeout bounds one run of either program; both take a fraction of a second.
const commandTimeout = time.Minute

// SpeechServer speaks OpenAI's protocol for speech and transcription over two programs that this project
// did not write: Flite makes sounds of 16 kHz mono, PocketSphinx understands spoken digits.
type SpeechServer struct {
	// URL is the base without /v1 and without a slash at the end.
	URL string
	dir string
}

// Speech starts a server for the test.
func Speech(t testing.TB) *SpeechServer {
	t.Helper()
	for _, program := range []string{"flite", "pocketsphinx_continuous"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: run `make test-real`, which installs it", err)
		}
	}
	s := &SpeechServer{dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(s.dir, "digits.gram"), []byte(digitGrammar), 0o600); err != nil {
		t.Fatalf("write the grammar: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"},{"id":%q,"object":"model"}]}`, FliteModel, SphinxModel)
	})
	mux.HandleFunc("POST /v1/audio/speech", answer(s.speak))
	mux.HandleFunc("POST /v1/audio/transcriptions", answer(s.listen))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// answer answers an error as servers of this protocol do.
func answer(serve func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": err.Error(), "type": "server_error"}})
		}
	}
}

func (s *SpeechServer) speak(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Model, Input string
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return err
	}
	if body.Model != FliteModel {
		return fmt.Errorf("no model %q speaks", body.Model)
	}
	file, err := os.CreateTemp(s.dir, "*.wav")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }()
	if _, err := run(r.Context(), "flite", "-voice", "kal16", "-t", body.Input, "-o", file.Name()); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "audio/wav")
	_, _ = io.Copy(w, file) // the client may have gone
	return nil
}

func (s *SpeechServer) listen(w http.ResponseWriter, r *http.Request) error {
	upload, _, err := r.FormFile("file")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(upload.Close(), r.MultipartForm.RemoveAll()) }()
	if model := r.FormValue("model"); model != SphinxModel {
		return fmt.Errorf("no model %q listens", model)
	}
	sound, err := io.ReadAll(upload)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, fmt.Sprintf("%d.wav", time.Now().UnixNano()))
	if err := os.WriteFile(path, sound, 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(path) }()
	out, err := run(r.Context(), "pocketsphinx_continuous", "-infile", path, "-jsgf", filepath.Join(s.dir, "digits.gram"), "-logfn", "/dev/null")
	if err != nil {
		return err
	}
	text := strings.Join(strings.Fields(out), " ")
	seconds := 0.0
	if len(sound) > 44 {
		seconds = float64(len(sound)-44) / float64(binary.LittleEndian.Uint32(sound[28:]))
	}
	reply := map[string]any{"text": text, "usage": map[string]any{"type": "duration", "seconds": seconds}}
	if r.FormValue("response_format") == "verbose_json" {
		reply["task"], reply["language"], reply["duration"] = "transcribe", "english", seconds
		reply["segments"] = []map[string]any{{"id": 0, "start": 0, "end": seconds, "text": text}}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(reply)
}

// run runs a program and returns what it printed.
func run(ctx context.Context, program string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var failed strings.Builder
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stderr = &failed
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, failed.String())
	}
	return string(out), nil
}
