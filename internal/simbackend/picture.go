package simbackend

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strings"
)

// picture is an image of a message, known by its header or, if it was sent as an address, by that alone.
type picture struct {
	mediaType     string
	width, height int
	url           string
}

var errNotAnImage = errors.New("cannot identify image file")

// decodePicture reads the header of a PNG, JPEG or GIF image. declared is the media type that came with it, or empty.
func decodePicture(data []byte, declared string) (picture, error) {
	var decode func(io.Reader) (image.Config, error)
	found := http.DetectContentType(data)
	switch found {
	case "image/png":
		decode = png.DecodeConfig
	case "image/jpeg":
		decode = jpeg.DecodeConfig
	case "image/gif":
		decode = gif.DecodeConfig
	default:
		return picture{}, errNotAnImage
	}
	cfg, err := decode(bytes.NewReader(data))
	if err != nil {
		return picture{}, errNotAnImage
	}
	if declared == "" {
		declared = found
	}
	return picture{mediaType: declared, width: cfg.Width, height: cfg.Height}, nil
}

// parsePictureURL reads a data URI. Any other address is kept unread: the simulator fetches nothing.
func parsePictureURL(url string) (picture, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return picture{url: url}, nil
	}
	head, text, ok := strings.Cut(rest, ",")
	mediaType, encoded := strings.CutSuffix(head, ";base64")
	if !ok || !encoded {
		return picture{}, errNotAnImage
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return picture{}, errNotAnImage
	}
	return decodePicture(data, mediaType)
}

// describe says what the images are, in words that a test can look for.
func describe(images []picture) string {
	var b strings.Builder
	if len(images) == 1 {
		b.WriteString("I can see 1 image.")
	} else {
		fmt.Fprintf(&b, "I can see %d images.", len(images))
	}
	for i, p := range images {
		if p.url != "" {
			fmt.Fprintf(&b, " Image %d: by address, not fetched.", i+1)
			continue
		}
		fmt.Fprintf(&b, " Image %d: %s, %dx%d pixels.", i+1, p.mediaType, p.width, p.height)
	}
	return b.String()
}
