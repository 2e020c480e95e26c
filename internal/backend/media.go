package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// MediaAnswer is an answer of speech, transcription or images that a backend has accepted.
type MediaAnswer struct {
	Events llm.MediaStream
	close  func()
}

// Close ends the upstream call. It is needed where Events is not consumed to its end, and harmless otherwise.
func (a *MediaAnswer) Close() { a.close() }

// Caps on an answer of media, in bytes. An hour of uncompressed speech, and ten large images, fit.
const (
	maxSpeechReply     = 256 << 20
	maxTranscriptReply = 64 << 20
	maxImageReply      = 256 << 20
)

// mediaCall is one request for media.
type mediaCall struct {
	path        string
	contentType string
	size        int64
	body        func() io.Reader // may be called again
	limit       int64            // of the reply
	decode      func(contentType string, body io.Reader) llm.MediaStream
}

func jsonCall(path string, body []byte) mediaCall {
	return mediaCall{
		path: path, contentType: "application/json", size: int64(len(body)), body: func() io.Reader { return bytes.NewReader(body) },
	}
}

func uploadCall(path string, u *openai.Upload) mediaCall {
	return mediaCall{path: path, contentType: u.ContentType, size: u.Size, body: u.Reader}
}

// Speak implements Client.
func (c *openAIClient) Speak(ctx context.Context, req *llm.SpeechRequest, m llm.Model) (*MediaAnswer, error) {
	body, err := openai.EncodeSpeechCall(req, c.options(m, ""))
	if err != nil {
		return nil, err
	}
	call := jsonCall("/v1/audio/speech", body)
	call.limit, call.decode = maxSpeechReply, openai.DecodeSpeechReply
	return c.media(ctx, call)
}

// Transcribe implements Client.
func (c *openAIClient) Transcribe(ctx context.Context, req *llm.TranscriptionRequest, m llm.Model) (*MediaAnswer, error) {
	call := uploadCall(openai.EncodeTranscriptionCall(req, c.options(m, "")))
	call.limit, call.decode = maxTranscriptReply, openai.DecodeTranscriptReply
	return c.media(ctx, call)
}

// Draw implements Client.
func (c *openAIClient) Draw(ctx context.Context, req *llm.ImageRequest, m llm.Model) (*MediaAnswer, error) {
	var call mediaCall
	if req.Edit {
		call = uploadCall("/v1/images/edits", openai.EncodeImageEditCall(req, c.options(m, "")))
	} else {
		body, err := openai.EncodeImageCall(req, c.options(m, ""))
		if err != nil {
			return nil, err
		}
		call = jsonCall("/v1/images/generations", body)
	}
	call.limit, call.decode = maxImageReply, openai.DecodeImageReply
	return c.media(ctx, call)
}

// media sends a request and decodes its reply while it arrives.
func (s server) media(ctx context.Context, call mediaCall) (*MediaAnswer, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+call.path, call.body())
	if err != nil {
		cancel()
		return nil, &llm.Error{Code: llm.CodeInternal, Message: "The request could not be sent to the model server.", Err: err}
	}
	req.ContentLength = call.size
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(call.body()), nil }
	req.Header.Set("Content-Type", call.contentType)
	req.Header["X-Idempotency-Key"] = nil     // as in do
	s.decodeError = noEndpoint(s.decodeError) // of this copy
	resp, err := s.send(req)                  //nolint:bodyclose // closeAll does
	if err != nil {
		cancel()
		return nil, err
	}
	closeAll := func() {
		cancel()
		closeBody(resp.Body)
	}
	body := &capped{r: resp.Body, left: call.limit}
	events := func(yield func(llm.MediaEvent, error) bool) {
		defer closeAll()
		for ev, err := range call.decode(resp.Header.Get("Content-Type"), body) {
			if err != nil {
				err = s.fault(ctx, err)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
		drain(resp.Body, cancel)
	}
	return &MediaAnswer{Events: events, close: closeAll}, nil
}

// noEndpoint takes a path that a server does not know for a server that cannot do what is asked: a model whose
// capabilities nobody told may be sent anything, and its server is not ill for that.
func noEndpoint(decode func(int, http.Header, []byte) *llm.Error) func(int, http.Header, []byte) *llm.Error {
	return func(status int, h http.Header, body []byte) *llm.Error {
		err := decode(status, h, body)
		switch status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return unsupportedMedia(err)
		default:
			return err
		}
	}
}

// unsupportedMedia may be tried elsewhere and blames nobody.
func unsupportedMedia(cause error) *llm.Error {
	return &llm.Error{
		Code: llm.CodeNoBackend, Message: "No model server offers this for the model.", Err: errors.Join(ErrUnsupported, cause),
	}
}

// capped reads at most so many bytes and fails beyond.
type capped struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, upstream(errors.New("the reply is larger than its cap"))
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// Speak implements Client: Ollama has no such endpoint.
func (c *ollamaClient) Speak(context.Context, *llm.SpeechRequest, llm.Model) (*MediaAnswer, error) {
	return nil, unsupportedMedia(nil)
}

// Transcribe implements Client: Ollama's endpoint of that name is not used.
func (c *ollamaClient) Transcribe(context.Context, *llm.TranscriptionRequest, llm.Model) (*MediaAnswer, error) {
	return nil, unsupportedMedia(nil)
}

// Draw implements Client: Ollama draws nothing in the versions that are supported.
func (c *ollamaClient) Draw(context.Context, *llm.ImageRequest, llm.Model) (*MediaAnswer, error) {
	return nil, unsupportedMedia(nil)
}
