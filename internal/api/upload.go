package api

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// Bounds on the files of an upload together, in bytes.
const (
	MaxAudio  = 25 << 20
	MaxImages = 32 << 20
)

// uploadTimeout is how long a client may take to send an upload.
const uploadTimeout = 5 * time.Minute

// Bounds on what an upload has beside its files.
const (
	maxParts  = 128
	maxValues = 4 << 20 // bytes; samples of voices are values
	// maxPartHeads bounds what the parts have around their content, in bytes.
	maxPartHeads = 256 << 10
	sniffed      = 512 // first bytes of a file
)

// fileKind is what an upload may consist of.
type fileKind struct {
	limit int64
	names []string // of the parts that are files
	words string   // the formats that are allowed, for messages
	sniff func(head []byte) (format, mediaType string)
}

func (a *API) sounds() fileKind {
	return fileKind{a.cfg.MaxAudio, []string{"file"}, "FLAC, MP3, MP4, M4A, OGG, WAV or WebM", sniffSound}
}

func (a *API) images() fileKind {
	return fileKind{a.cfg.MaxImages, []string{"image", "image[]", "mask"}, "PNG, JPEG or WebP", sniffImage}
}

// upload is a form whose files lie outside memory, in the spool: the model that the form asks for may come behind the
// file, and what a backend did not answer is sent to another one.
type upload struct {
	form  openai.Form
	kind  fileKind
	dir   string
	left  int64 // bytes that files may still have
	spool []*os.File
}

// upload reads a form while it arrives. The caller closes it when nothing reads its files any more. Errors are *llm.Error.
func (a *API) upload(w http.ResponseWriter, r *http.Request, kind fileKind) (*upload, error) {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" || params["boundary"] == "" {
		return nil, llm.Invalid("Content-Type", "The body must be multipart/form-data.")
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, llm.Invalid("Content-Encoding", "Uploads are taken as they are, not encoded as %q.", truncate(e, 32))
	}
	whole := kind.limit + maxValues + maxPartHeads
	if r.ContentLength > whole {
		return nil, tooLargeFiles(kind.limit)
	}
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Now().Add(uploadTimeout)); err != nil {
		return nil, err
	}
	u := &upload{
		form: openai.Form{Values: map[string][]string{}, Files: map[string][]llm.File{}}, kind: kind, dir: a.cfg.SpoolDir, left: kind.limit,
	}
	body := http.MaxBytesReader(w, r.Body, whole)
	err = u.read(multipart.NewReader(body, params["boundary"]))
	if err != nil {
		_, _ = io.Copy(io.Discard, body) // many clients read no answer before they have sent all; err is what counts
	}
	if err == nil {
		err = rc.SetReadDeadline(time.Time{}) // from here on the connection is watched for the client's leaving
	}
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return u, nil
	case errors.As(err, &large):
		err = tooLargeFiles(kind.limit)
	}
	return nil, errors.Join(err, u.close())
}

func tooLargeFiles(limit int64) error {
	return llm.Errorf(llm.CodeTooLarge, "The upload is larger than %d bytes.", limit)
}

func (u *upload) read(parts *multipart.Reader) error {
	values := int64(maxValues)
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unreadable(err)
		case n >= maxParts:
			return llm.Invalid("", "The body has more than %d parts.", maxParts)
		}
		name := part.FormName()
		if u.isFile(name) {
			if err := u.file(name, part); err != nil {
				return err
			}
			continue
		}
		if part.FileName() != "" {
			u.form.Unread = append(u.form.Unread, name)
			if _, err := io.Copy(io.Discard, part); err != nil {
				return unreadable(err)
			}
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, values+1))
		switch values -= int64(len(value)); {
		case err != nil:
			return unreadable(err)
		case values < 0:
			return llm.Errorf(llm.CodeTooLarge, "The fields beside the files are larger than %d bytes.", maxValues)
		}
		u.form.Values[name] = append(u.form.Values[name], string(value))
	}
}

func unreadable(err error) error {
	return &llm.Error{Code: llm.CodeInvalidRequest, Message: "The body could not be read.", Err: err}
}

func (u *upload) isFile(name string) bool {
	name, _, _ = strings.Cut(name, "[")
	for _, n := range u.kind.names {
		if n == name {
			return true
		}
	}
	return false
}

// file spools one file. What it is follows from its first bytes.
func (u *upload) file(name string, part io.Reader) error {
	in := bufio.NewReaderSize(part, 32<<10)
	head, err := in.Peek(sniffed)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return unreadable(err)
	case len(head) == 0:
		return llm.Invalid(name, "The file is empty.")
	}
	f := llm.File{}
	f.Format, f.MediaType = u.kind.sniff(head)
	if f.Format == "" {
		return llm.Invalid(name, "The file is in no format that is taken: %s.", u.kind.words)
	}
	rate := wavRate(head)
	spool, err := u.temporary()
	if err != nil {
		return err
	}
	if f.Size, err = io.Copy(onlyWriter{spool}, io.LimitReader(in, u.left+1)); err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			return fmt.Errorf("spool an upload: %w", err)
		}
		return unreadable(err)
	}
	if u.left -= f.Size; u.left < 0 {
		return tooLargeFiles(u.kind.limit)
	}
	if rate > 0 {
		f.Duration = time.Duration(float64(f.Size) / float64(rate) * float64(time.Second))
	}
	f.Content = spool
	u.form.Files[name] = append(u.form.Files[name], f)
	return nil
}

// onlyWriter hides that a file can read from others by itself, so that the copy uses one small buffer.
type onlyWriter struct{ io.Writer }

// temporary returns a file that has no name any more, so that it is gone however this process ends. Where a file that is
// open cannot be removed, close does it.
func (u *upload) temporary() (*os.File, error) {
	f, err := os.CreateTemp(u.dir, "mindrouter-upload-")
	if errors.Is(err, fs.ErrNotExist) && u.dir != "" {
		if err = os.MkdirAll(u.dir, 0o700); err == nil {
			f, err = os.CreateTemp(u.dir, "mindrouter-upload-")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("spool an upload: %w", err)
	}
	u.spool = append(u.spool, f)
	_ = os.Remove(f.Name()) // or else close does
	return f, nil
}

// close gives the files up. A backend that still reads one gets an error.
func (u *upload) close() error {
	var errs []error
	for _, f := range u.spool {
		errs = append(errs, f.Close())
		if err := os.Remove(f.Name()); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	u.spool = nil
	return errors.Join(errs...)
}

// sniffSound tells the format of a sound by its first bytes.
func sniffSound(b []byte) (format, mediaType string) {
	switch {
	case bytes.HasPrefix(b, []byte("fLaC")):
		return "flac", "audio/flac"
	case bytes.HasPrefix(b, []byte("OggS")):
		return "ogg", "audio/ogg"
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WAVE":
		return "wav", "audio/wav"
	case bytes.HasPrefix(b, []byte("\x1a\x45\xdf\xa3")):
		return "webm", "audio/webm"
	case len(b) >= 12 && string(b[4:8]) == "ftyp" && (string(b[8:12]) == "M4A " || string(b[8:12]) == "M4B "):
		return "m4a", "audio/mp4"
	case len(b) >= 12 && string(b[4:8]) == "ftyp":
		return "mp4", "audio/mp4"
	case bytes.HasPrefix(b, []byte("ID3")), isMPEG(b):
		return "mp3", "audio/mpeg"
	default:
		return "", ""
	}
}

// isMPEG reports whether b begins with a frame of MPEG sound of layer 2 or 3.
func isMPEG(b []byte) bool {
	if len(b) < 2 || b[0] != 0xff || b[1]&0xe0 != 0xe0 || b[1]&0x18 == 0x08 {
		return false
	}
	layer := b[1] & 0x06
	return layer == 0x02 || layer == 0x04
}

// wavRate is how many bytes of a WAV file make a second; 0 if it is none or does not tell where it usually does.
func wavRate(b []byte) uint32 {
	if len(b) < 32 || string(b[:4]) != "RIFF" || string(b[12:16]) != "fmt " {
		return 0
	}
	return binary.LittleEndian.Uint32(b[28:])
}

// sniffImage tells the format of an image by its first bytes.
func sniffImage(b []byte) (format, mediaType string) {
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return "png", "image/png"
	case bytes.HasPrefix(b, []byte("\xff\xd8\xff")):
		return "jpeg", "image/jpeg"
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return "webp", "image/webp"
	default:
		return "", ""
	}
}
