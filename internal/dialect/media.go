package dialect

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strings"

	"mindrouter/internal/llm"
)

// MaxMedia is the largest inline image, sound or document, in bytes after decoding.
const MaxMedia = 20 << 20

// Image reads an image reference of a client: a data URI, which is decoded and checked, or an http or https URL, which
// is kept for the gateway to fetch. Errors have no Param; the caller knows the place.
func Image(ref string) (*llm.Media, *llm.Error) {
	if payload, ok := strings.CutPrefix(ref, "data:"); ok {
		_, data, err := dataURI(payload)
		if err != nil {
			return nil, err
		}
		return ImageData(data)
	}
	u, err := url.Parse(ref)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return nil, llm.Errorf(llm.CodeInvalidRequest, "must be a data URI or an http or https URL")
	}
	return &llm.Media{URL: ref}, nil
}

// ImageData checks the bytes of an image. The type follows from them, not from what the client says.
func ImageData(data []byte) (*llm.Media, *llm.Error) {
	kind := sniffImage(data)
	if kind == "" {
		return nil, llm.Errorf(llm.CodeInvalidRequest, "is not a PNG, JPEG, WebP or GIF image")
	}
	if pixels(kind, data) > MaxPixels {
		return nil, llm.Errorf(llm.CodeInvalidRequest, "has more than %d megapixels", MaxPixels/1_000_000)
	}
	return &llm.Media{Type: kind, Data: data}, nil
}

// DataOrBase64 reads inline content that is a data URI or plain base64; the media type is empty if it is not said.
func DataOrBase64(s string) (mediaType string, data []byte, err *llm.Error) {
	if payload, ok := strings.CutPrefix(s, "data:"); ok {
		return dataURI(payload)
	}
	data, err = Base64(s)
	return "", data, err
}

func dataURI(payload string) (mediaType string, data []byte, err *llm.Error) {
	head, body, ok := strings.Cut(payload, ",")
	head, isBase64 := strings.CutSuffix(head, ";base64")
	if !ok || !isBase64 {
		return "", nil, llm.Errorf(llm.CodeInvalidRequest, "must be a base64 data URI, such as data:image/png;base64,...")
	}
	mediaType, _, _ = strings.Cut(head, ";")
	data, err = Base64(body)
	return mediaType, data, err
}

// Base64 decodes base64 as clients send it: standard or URL alphabet, with or without padding, line breaks allowed.
func Base64(s string) ([]byte, *llm.Error) {
	if base64.StdEncoding.DecodedLen(len(s)) > MaxMedia+MaxMedia/16 {
		return nil, tooLargeMedia()
	}
	if strings.ContainsAny(s, "\r\n \t") {
		s = strings.NewReplacer("\r", "", "\n", "", " ", "", "\t", "").Replace(s)
	}
	s = strings.TrimRight(s, "=")
	enc := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	data, err := enc.DecodeString(s)
	switch {
	case err != nil:
		return nil, llm.Errorf(llm.CodeInvalidRequest, "is not valid base64")
	case len(data) == 0:
		return nil, llm.Errorf(llm.CodeInvalidRequest, "is empty")
	case len(data) > MaxMedia:
		return nil, tooLargeMedia()
	}
	return data, nil
}

func tooLargeMedia() *llm.Error {
	return llm.Errorf(llm.CodeInvalidRequest, "is larger than %d MiB", MaxMedia>>20)
}

// sniffImage returns the media type of an image by its first bytes. SVG is no image here: it is a program.
func sniffImage(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(b, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		return "image/gif"
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return "image/webp"
	default:
		return ""
	}
}

// DataURI returns m as a data URI. It must be inline.
func DataURI(m *llm.Media) string {
	b := make([]byte, 0, len(m.Type)+13+base64.StdEncoding.EncodedLen(len(m.Data)))
	b = append(b, "data:"...)
	b = append(b, m.Type...)
	b = append(b, ";base64,"...)
	return string(base64.StdEncoding.AppendEncode(b, m.Data))
}

// DocumentText returns a document as text for models that read only that. Anything but text is refused.
func DocumentText(m *llm.Media) (string, *llm.Error) {
	base, _, _ := strings.Cut(m.Type, ";")
	if len(m.Data) == 0 || (!strings.HasPrefix(base, "text/") && base != "application/json") {
		return "", llm.Errorf(llm.CodeUnsupported, "documents of type %q are not supported; send text or images", m.Type)
	}
	text := strings.ToValidUTF8(string(m.Data), "\ufffd")
	if m.Name != "" {
		text = m.Name + ":\n" + text
	}
	return text, nil
}

// RemoteMedia returns the error for media that is only a URL where no backend may fetch it.
func RemoteMedia() *llm.Error {
	return llm.Errorf(llm.CodeInvalidRequest, "remote images are disabled; send the image as a data URI")
}
