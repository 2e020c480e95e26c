package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// Form is an upload of a client: what its parts say, and its files.
type Form struct {
	Values map[string][]string
	Files  map[string][]llm.File
	// Unread are file parts under names that no request has.
	Unread []string
}

// fields reads the values of a form by name, as dialect.Fields reads the members of an object.
type fields struct {
	form *Form
	err  *llm.Error
}

func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = llm.Invalid(name, format, args...)
	}
}

// text takes a value that may be given once.
func (f *fields) text(name string) string {
	v := f.form.Values[name]
	delete(f.form.Values, name)
	if len(v) > 1 {
		f.fail(name, "is given %d times", len(v))
	}
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

// list takes a value that may be given several times, under its name, with brackets behind it, or with an index in them.
func (f *fields) list(name string) []string {
	var out []string
	for _, key := range append([]string{name, name + "[]"}, f.indexed(name)...) {
		out = append(out, f.form.Values[key]...)
		delete(f.form.Values, key)
	}
	return out
}

func (f *fields) indexed(name string) []string {
	var keys []string
	for i := 0; ; i++ {
		key := dialect.At(name, i)
		if f.form.Values[key] == nil {
			return keys
		}
		keys = append(keys, key)
	}
}

func (f *fields) number(name string, low, high float64) *float64 {
	v := f.text(name)
	if v == "" {
		return nil
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || !(x >= low && x <= high) {
		f.fail(name, "must be a number between %g and %g", low, high)
		return nil
	}
	return &x
}

func (f *fields) whole(name string, low, high int) *int {
	v := f.text(name)
	if v == "" {
		return nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		f.fail(name, "must be a whole number between %d and %d", low, high)
		return nil
	}
	return &n
}

func (f *fields) flag(name string) bool {
	switch v := f.text(name); strings.ToLower(v) {
	case "", "false", "0":
		return false
	case "true", "1":
		return true
	default:
		f.fail(name, "must be true or false")
		return false
	}
}

func (f *fields) model() string {
	m := f.text("model")
	switch {
	case m == "":
		f.fail("model", "is required")
	case len(m) > maxModelName:
		f.fail("model", "is longer than %d bytes", maxModelName)
	}
	return m
}

// rest sorts what nobody took: what passes goes to a backend of this dialect, everything else is dropped and noted.
func (f *fields) rest(passes map[string]bool) (map[string]json.RawMessage, []llm.Note) {
	var notes []llm.Note
	extra := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(f.form.Values)) {
		if v := f.form.Values[name]; passes[name] && len(v) == 1 {
			extra[name] = dialect.Quote(v[0])
		} else {
			notes = append(notes, llm.Note{Field: dialect.NoteName(name), What: "dropped"})
		}
	}
	for _, name := range f.form.Unread {
		notes = append(notes, llm.Note{Field: dialect.NoteName(name), What: "dropped"})
	}
	return extra, notes
}

// Upload is a multipart body for a backend. Its files are read while it is sent, and may be sent again.
type Upload struct {
	ContentType string
	Size        int64 // bytes
	parts       []uploadPart
}

type uploadPart struct {
	head []byte
	file *llm.File // after head; nil behind the last file
}

// Reader returns a reader of the whole body.
func (u *Upload) Reader() io.Reader {
	readers := make([]io.Reader, 0, 2*len(u.parts))
	for _, p := range u.parts {
		readers = append(readers, bytes.NewReader(p.head))
		if p.file != nil {
			readers = append(readers, p.file.Reader())
		}
	}
	return io.MultiReader(readers...)
}

// uploadWriter makes an Upload.
type uploadWriter struct {
	buf bytes.Buffer
	w   *multipart.Writer
	u   Upload
}

func newUploadWriter() *uploadWriter {
	w := &uploadWriter{}
	w.w = multipart.NewWriter(&w.buf)
	return w
}

// field adds a value unless it is empty. Writing to memory does not fail.
func (w *uploadWriter) field(name, value string) {
	if value != "" {
		_ = w.w.WriteField(name, value)
	}
}

func (w *uploadWriter) fields(name string, values []string) {
	for _, v := range values {
		w.field(name, v)
	}
}

func (w *uploadWriter) number(name string, x *float64) {
	if x != nil {
		w.field(name, strconv.FormatFloat(*x, 'g', -1, 64))
	}
}

func (w *uploadWriter) whole(name string, n *int) {
	if n != nil {
		w.field(name, strconv.Itoa(*n))
	}
}

func (w *uploadWriter) extra(extra map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		text, ok := dialect.Unquote(extra[name])
		if !ok {
			text = string(extra[name])
		}
		w.field(name, text)
	}
}

// file adds a file under a name of ours: servers look at the extension, and what the client called it is nobody's business.
func (w *uploadWriter) file(name string, f *llm.File) {
	_, _ = w.w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename="%s.%s"`, name, strings.Trim(name, "[]"), f.Format)},
		"Content-Type":        {f.MediaType},
	})
	w.cut(f)
}

func (w *uploadWriter) cut(f *llm.File) {
	head := bytes.Clone(w.buf.Bytes())
	w.buf.Reset()
	w.u.Size += int64(len(head))
	if f != nil {
		w.u.Size += f.Size
	}
	w.u.parts = append(w.u.parts, uploadPart{head, f})
}

func (w *uploadWriter) close() *Upload {
	_ = w.w.Close()
	w.cut(nil)
	w.u.ContentType = w.w.FormDataContentType()
	return &w.u
}
