// Package static holds the files that pages load: styles, scripts, icons and the font. They are part of the binary. At
// start the styles are joined to one file, which is named by its content, so that browsers may keep it for ever.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed css js fonts icons.svg
var files embed.FS

// styles are joined in this order; tokens.css names the layers.
var styles = []string{"css/tokens.css", "css/base.css", "css/components.css", "css/app.css"}

// Assets are the files as they are served. They are immutable and safe for concurrent use.
type Assets struct {
	// CSS, JS and Icons are the URLs that pages refer to.
	CSS, JS, Icons string
	byURL          map[string]asset
}

type asset struct {
	body, gzipped []byte
	mediaType     string
}

// Prefix is where the files are served.
const Prefix = "/static/"

// New reads the embedded files.
func New() (*Assets, error) {
	a := &Assets{byURL: map[string]asset{}}
	var css []byte
	for _, name := range styles {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		css = append(css, text...)
	}
	var err error
	if a.CSS, err = a.add("css/app.css", css, "text/css; charset=utf-8"); err != nil {
		return nil, err
	}
	if a.JS, err = a.addFile("js/app.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if a.Icons, err = a.addFile("icons.svg", "image/svg+xml"); err != nil {
		return nil, err
	}
	// The style sheet refers to the font by a fixed relative name.
	font, err := files.ReadFile("fonts/source-sans-3-latin.woff2")
	if err != nil {
		return nil, err
	}
	a.byURL[Prefix+"fonts/source-sans-3-latin.woff2"] = asset{body: font, mediaType: "font/woff2"}
	return a, nil
}

func (a *Assets) addFile(name, mediaType string) (string, error) {
	body, err := files.ReadFile(name)
	if err != nil {
		return "", err
	}
	return a.add(name, body, mediaType)
}

// add serves body under its name with a part of its hash, and returns that URL.
func (a *Assets) add(name string, body []byte, mediaType string) (string, error) {
	sum := sha256.Sum256(body)
	ext := path.Ext(name)
	url := fmt.Sprintf("%s%s-%s%s", Prefix, strings.TrimSuffix(name, ext), hex.EncodeToString(sum[:6]), ext)
	var packed bytes.Buffer
	zw, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := zw.Write(body); err != nil {
		return "", err
	}
	if err := zw.Close(); err != nil {
		return "", err
	}
	a.byURL[url] = asset{body: body, gzipped: packed.Bytes(), mediaType: mediaType}
	return url, nil
}

// ServeHTTP serves the files below [Prefix].
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a.byURL[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	body := f.body
	if f.gzipped != nil {
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = f.gzipped
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
