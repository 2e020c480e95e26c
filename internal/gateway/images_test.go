package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mindrouter/internal/llm"
	"mindrouter/internal/safehttp"
)

func remote(urls ...string) *llm.Request {
	var blocks []llm.Block
	for _, u := range urls {
		blocks = append(blocks, llm.Block{Kind: llm.BlockImage, Media: &llm.Media{URL: u, Detail: "low"}})
	}
	result := llm.Block{Kind: llm.BlockToolResult, ToolResult: &llm.ToolResult{Content: blocks}}
	return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: blocks}, {Role: llm.RoleTool, Blocks: []llm.Block{result}}}}
}

func TestImagesByAddress(t *testing.T) {
	t.Parallel()
	fetch := func(_ context.Context, url string) (*llm.Media, error) {
		switch {
		case strings.HasSuffix(url, "inside"):
			return nil, fmt.Errorf("get: %w", safehttp.ErrAddress)
		case strings.HasSuffix(url, "large"):
			return nil, safehttp.ErrTooLarge
		case strings.HasSuffix(url, "text"):
			return nil, llm.Errorf(llm.CodeInvalidRequest, "is not a PNG, JPEG, WebP or GIF image")
		case strings.HasSuffix(url, "down"):
			return nil, errors.New("dial tcp 10.0.0.1:443: refused")
		}
		return &llm.Media{Type: "image/png", Data: []byte(url)}, nil
	}
	r := &run{g: New(Config{FetchImage: fetch})}
	req := remote("https://a/1", "https://a/2")
	if err := r.fetchImages(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for _, blocks := range [][]llm.Block{req.Messages[0].Blocks, req.Messages[1].Blocks[0].ToolResult.Content} {
		for i, b := range blocks {
			if m := b.Media; m.URL != "" || m.Type != "image/png" || string(m.Data) != fmt.Sprintf("https://a/%d", i+1) || m.Detail != "low" {
				t.Errorf("image %d is %+v", i, m)
			}
		}
	}
	for url, want := range map[string]string{"inside": "may not be fetched", "large": "too large", "text": "not a PNG", "down": "could not be fetched"} {
		err := llm.AsError(r.fetchImages(t.Context(), remote("https://a/1", "https://a/"+url)))
		if err == nil || err.Code != llm.CodeInvalidRequest || err.Param != "messages[0].content[1]" || !strings.Contains(err.Message, want) || strings.Contains(err.Message, "10.0.0.1") {
			t.Errorf("%s: %+v, want %q", url, err, want)
		}
	}
	if err := r.fetchImages(t.Context(), remote(make([]string, 0)...)); err != nil {
		t.Errorf("no images: %v", err)
	}
	many := make([]string, maxRemoteImages+1)
	for i := range many {
		many[i] = "https://a/x"
	}
	if err := r.fetchImages(t.Context(), remote(many...)); llm.CodeOf(err) != llm.CodeInvalidRequest {
		t.Errorf("too many: %v", err)
	}
	off := &run{g: New(Config{})}
	if err := llm.AsError(off.fetchImages(t.Context(), remote("https://a/1"))); err == nil || !strings.Contains(err.Message, "disabled") {
		t.Errorf("switched off: %v", err)
	}
}
