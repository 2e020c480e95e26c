package api

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mindrouter/internal/llm"
)

// wavSecond is the head of a WAV of 16 kHz mono with 16 bits.
const wavSecond = "RIFF\x24\x7d\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data\x00\x7d\x00\x00"

// TestUploadsLeaveNothing: a file can be read while its request runs, has no name then, and is gone afterwards.
func TestUploadsLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "yet")
	a := New(Config{SpoolDir: dir})
	sound := wavSecond + string(make([]byte, 64_000))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up, err := a.upload(w, r, a.sounds())
		if err != nil {
			t.Error(err)
			return
		}
		names, err := os.ReadDir(dir)
		if err != nil || len(names) != 0 {
			t.Errorf("the spool shows %v, %v", names, err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the spool is %v, %v", info.Mode(), err)
		}
		f := up.form.Files["file"][0]
		for range 2 {
			if got, err := io.ReadAll(f.Reader()); err != nil || string(got) != sound {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(sound))
			}
		}
		if f.Format != "wav" || f.Duration.Round(100*time.Millisecond) != 2*time.Second || up.form.Values["model"][0] != "m" {
			t.Errorf("%+v, %v", f, up.form.Values)
		}
		if err := up.close(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(f.Reader()); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after the request: %v, want a closed file", err)
		}
	}))
	defer server.Close()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(part, sound)
	if err = errors.Join(err, form.WriteField("model", "m"), form.Close()); err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Post(server.URL, form.FormDataContentType(), &body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// TestFilesAreKnownByTheirContent: neither name nor type that a client gives counts.
func TestFilesAreKnownByTheirContent(t *testing.T) {
	t.Parallel()
	for head, want := range map[string][2]string{
		"fLaC\x00": {"flac"}, "OggS\x00": {"ogg"}, wavSecond: {"wav"}, "ID3\x04": {"mp3"}, "\xff\xfb\x90\x00": {"mp3"}, "\xff\xf3\x90\x00": {"mp3"},
		"\x00\x00\x00\x20ftypM4A ": {"m4a"}, "\x00\x00\x00\x20ftypisom": {"mp4"}, "\x1a\x45\xdf\xa3\x01": {"webm"},
		"\x89PNG\r\n\x1a\n": {"", "png"}, "\xff\xd8\xff\xe0": {"", "jpeg"}, "RIFF0000WEBP": {"", "webp"},
		"GIF89a": {}, "<svg>": {}, "RIFF0000AVI ": {}, "\xff\xff": {}, "\xff": {}, "": {}, "text": {}, "#!/bin/sh": {},
	} {
		sound, _ := sniffSound([]byte(head))
		picture, _ := sniffImage([]byte(head))
		if sound != want[0] || picture != want[1] {
			t.Errorf("%q is the sound %q and the image %q, want %q", head, sound, picture, want)
		}
	}
}

// TestAnUploadThatFailsLeavesNothing is about a file that is too large when it is spooled already.
func TestAnUploadThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := New(Config{SpoolDir: dir, MaxAudio: 1000})
	up := &upload{kind: a.sounds(), dir: dir, left: 1000}
	up.form.Files = map[string][]llm.File{}
	err := up.file("file", bytes.NewReader(append([]byte(wavSecond), make([]byte, 1000)...)))
	if llm.CodeOf(err) != llm.CodeTooLarge || len(up.spool) != 1 {
		t.Fatalf("%v with %d files", err, len(up.spool))
	}
	if err := up.close(); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the spool holds %v, %v", names, err)
	}
}
