package gateway

import (
	"context"
	"errors"
	"fmt"

	"mindrouter/internal/llm"
	"mindrouter/internal/safehttp"
)

// maxRemoteImages bounds the images of one request that are fetched.
const maxRemoteImages = 16

// fetchImages replaces images that are only an address by what is there, so that no model server ever fetches anything.
// Unless the site has switched that on they are refused.
func (r *run) fetchImages(ctx context.Context, req *llm.Request) error {
	n := 0
	for i, m := range req.Messages {
		if err := r.fetchIn(ctx, fmt.Sprintf("messages[%d]", i), m.Blocks, &n); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) fetchIn(ctx context.Context, path string, blocks []llm.Block, n *int) error {
	for i, b := range blocks {
		at := fmt.Sprintf("%s.content[%d]", path, i)
		switch {
		case b.ToolResult != nil:
			if err := r.fetchIn(ctx, at, b.ToolResult.Content, n); err != nil {
				return err
			}
		case b.Kind == llm.BlockImage && b.Media != nil && b.Media.URL != "":
			if r.g.cfg.FetchImage == nil {
				return llm.Invalid(at, "remote images are disabled; send the image as a data URI")
			}
			if *n++; *n > maxRemoteImages {
				return llm.Invalid(at, "more than %d images are addresses; send the others as data URIs", maxRemoteImages)
			}
			media, err := r.g.cfg.FetchImage(ctx, b.Media.URL)
			if err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return fetchFault(at, err)
			}
			fetched := *media
			fetched.Detail = b.Media.Detail
			blocks[i].Media = &fetched
		}
	}
	return nil
}

func fetchFault(at string, err error) error {
	e := llm.Invalid(at, "the image could not be fetched")
	e.Err = err
	switch {
	case errors.Is(err, safehttp.ErrAddress):
		e.Message = "this address may not be fetched"
	case errors.Is(err, safehttp.ErrTooLarge):
		e.Message = "the image is too large"
	case llm.AsError(err) != nil: // what was fetched is no image
		e.Message = llm.AsError(err).Message
	}
	return e
}
