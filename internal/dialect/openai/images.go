package openai

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// Limits on a request for images.
const (
	maxImages      = 10
	maxImageInputs = 16
	maxPartial     = 3
	maxImagePrompt = 32_000 // characters
	maxImageSide   = 8192   // pixels
)

// imagePasses lists the extra fields of known image servers that steer the picture and no more.
var imagePasses = set(
	"seed", "negative_prompt", "steps", "num_inference_steps", "guidance_scale", "true_cfg_scale", "cfg_scale", "sampler", "scheduler", "strength",
)

var imageFormats = []string{"png", "jpeg", "webp"}

// DecodeImageGeneration decodes the body of POST /v1/images/generations. Errors are *llm.Error with the field at fault.
func DecodeImageGeneration(body []byte) (*llm.ImageRequest, []llm.Note, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return nil, nil, err
	}
	r := &llm.ImageRequest{
		Origin: llm.DialectOpenAI, Model: mediaModel(f), Prompt: f.String("prompt"), N: f.Int("n", 1, maxImages),
		Size: f.String("size"), Quality: f.String("quality"), Style: f.String("style"), Background: f.String("background"),
		Moderation: f.String("moderation"), Format: f.String("output_format"), Compression: f.Int("output_compression", 0, 100),
		PartialImages: f.Int("partial_images", 0, maxPartial), EndUser: f.String("safety_identifier"),
	}
	if user := f.String("user"); r.EndUser == "" {
		r.EndUser = user
	}
	if on := f.Bool("stream"); on != nil {
		r.Stream = *on
	}
	notes := checkImage(r, f.String("response_format"), f.Fail)
	extra, dropped := mediaRest(f, imagePasses)
	r.Extra = extra
	if err := f.Err(); err != nil {
		return nil, nil, err
	}
	return r, append(notes, dropped...), nil
}

// DecodeImageEdit decodes the form of POST /v1/images/edits. Errors are *llm.Error with the field at fault. It takes the
// values out of the form.
func DecodeImageEdit(form *Form) (*llm.ImageRequest, []llm.Note, error) {
	f := &fields{form: form}
	r := &llm.ImageRequest{
		Edit: true, Origin: llm.DialectOpenAI, Model: f.model(), Prompt: f.text("prompt"), N: f.whole("n", 1, maxImages),
		Size: f.text("size"), Quality: f.text("quality"), Background: f.text("background"), Fidelity: f.text("input_fidelity"),
		Moderation: f.text("moderation"),
		Format:     f.text("output_format"), Compression: f.whole("output_compression", 0, 100),
		PartialImages: f.whole("partial_images", 0, maxPartial), Stream: f.flag("stream"), EndUser: f.text("safety_identifier"),
	}
	if user := f.text("user"); r.EndUser == "" {
		r.EndUser = user
	}
	r.Images = append(append(r.Images, form.Files["image"]...), form.Files["image[]"]...)
	for i := range maxImageInputs {
		r.Images = append(r.Images, form.Files[dialect.At("image", i)]...)
	}
	switch n := len(r.Images); {
	case n == 0:
		f.fail("image", "is required")
	case n > maxImageInputs:
		f.fail("image", "is given %d times, which is more than %d", n, maxImageInputs)
	}
	switch masks := form.Files["mask"]; len(masks) {
	case 0:
	case 1:
		r.Mask = &masks[0]
	default:
		f.fail("mask", "is given %d times", len(masks))
	}
	notes := checkImage(r, f.text("response_format"), f.fail)
	extra, dropped := f.rest(imagePasses)
	r.Extra = extra
	if f.err != nil {
		return nil, nil, f.err
	}
	return r, append(notes, dropped...), nil
}

// checkImage checks what both forms of a request have in common.
func checkImage(r *llm.ImageRequest, responseFormat string, fail func(name, format string, args ...any)) (notes []llm.Note) {
	switch n := utf8.RuneCountInString(r.Prompt); {
	case n == 0:
		fail("prompt", "is required")
	case n > maxImagePrompt:
		fail("prompt", "has %d characters, which is more than %d", n, maxImagePrompt)
	}
	if _, _, ok := ImageSize(r.Size); !ok {
		fail("size", "must be auto or WIDTHxHEIGHT, each at most %d", maxImageSide)
	}
	switch r.Format {
	case "", "png", "jpeg", "webp":
	default:
		fail("output_format", "must be one of %s", strings.Join(imageFormats, ", "))
	}
	for _, word := range [][2]string{
		{"quality", r.Quality}, {"style", r.Style}, {"background", r.Background}, {"moderation", r.Moderation}, {"input_fidelity", r.Fidelity},
	} {
		if len(word[1]) > 64 {
			fail(word[0], "is too long")
		}
	}
	if r.PartialImages != nil && *r.PartialImages > 0 && !r.Stream {
		fail("partial_images", "needs stream")
	}
	switch responseFormat {
	case "", "b64_json":
	case "url":
		// Images are not kept anywhere, so the address is the image itself.
		r.URL = true
		if r.Stream {
			fail("response_format", "url cannot be streamed")
		}
		notes = append(notes, llm.Note{Field: "response_format", What: "emulated", Detail: "data_uri"})
	default:
		fail("response_format", "must be b64_json or url")
	}
	return notes
}

// ImageSize reads the size of an image in pixels. It is 0 and 0 where the backend decides.
func ImageSize(s string) (width, height int, ok bool) {
	if s == "" || s == "auto" {
		return 0, 0, true
	}
	w, h, found := strings.Cut(s, "x")
	width, errW := strconv.Atoi(w)
	height, errH := strconv.Atoi(h)
	ok = found && errW == nil && errH == nil && min(width, height) >= 1 && max(width, height) <= maxImageSide
	return width, height, ok
}

type wirePictureCall struct {
	Model         string `json:"model"`
	Prompt        string `json:"prompt"`
	N             *int   `json:"n,omitempty"`
	Size          string `json:"size,omitempty"`
	Quality       string `json:"quality,omitempty"`
	Style         string `json:"style,omitempty"`
	Background    string `json:"background,omitempty"`
	Moderation    string `json:"moderation,omitempty"`
	Format        string `json:"output_format,omitempty"`
	Compression   *int   `json:"output_compression,omitempty"`
	PartialImages *int   `json:"partial_images,omitempty"`
	Response      string `json:"response_format,omitempty"`
	Stream        bool   `json:"stream,omitempty"`
	User          string `json:"user,omitempty"`
}

// imageResponse is the form in which a backend is asked for an image. OpenAI's own newer models always send base64 and
// refuse to be asked for it.
func imageResponse(model string) string {
	if strings.HasPrefix(model, "gpt-image") || strings.HasPrefix(model, "chatgpt-image") {
		return ""
	}
	return "b64_json"
}

// EncodeImageCall encodes r, which is no edit, for a backend.
func EncodeImageCall(r *llm.ImageRequest, o CallOptions) ([]byte, error) {
	return marshal(wirePictureCall{
		Model: o.Model.Name, Prompt: r.Prompt, N: r.N, Size: r.Size, Quality: r.Quality, Style: r.Style, Background: r.Background,
		Moderation: r.Moderation, Format: r.Format, Compression: r.Compression, PartialImages: r.PartialImages,
		Response: imageResponse(o.Model.Name), Stream: r.Stream,
	}, sameDialect(r.Origin, r.Extra))
}

// EncodeImageEditCall encodes an edit for a backend.
func EncodeImageEditCall(r *llm.ImageRequest, o CallOptions) *Upload {
	w := newUploadWriter()
	w.field("model", o.Model.Name)
	w.field("prompt", r.Prompt)
	w.whole("n", r.N)
	w.field("size", r.Size)
	w.field("quality", r.Quality)
	w.field("background", r.Background)
	w.field("moderation", r.Moderation)
	w.field("input_fidelity", r.Fidelity)
	w.field("output_format", r.Format)
	w.whole("output_compression", r.Compression)
	w.whole("partial_images", r.PartialImages)
	w.field("response_format", imageResponse(o.Model.Name))
	if r.Stream {
		w.field("stream", "true")
	}
	w.extra(sameDialect(r.Origin, r.Extra))
	name := "image"
	if len(r.Images) > 1 {
		name = "image[]"
	}
	for i := range r.Images {
		w.file(name, &r.Images[i])
	}
	if r.Mask != nil {
		w.file("mask", r.Mask)
	}
	return w.close()
}

// DecodeImageReply reads a backend's answer of the given content type: events, or a JSON body, of which one image after
// the other is read.
func DecodeImageReply(contentType string, body io.Reader) llm.MediaStream {
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil && kind == "text/event-stream" {
		return mediaEvents(body, func() (func([]byte) (llm.MediaEvent, bool, error), func() (llm.MediaEvent, error)) {
			var d imageDecoder
			return d.event, d.end
		})
	}
	if err != nil || kind != "application/json" {
		return noMedia(contentType, body)
	}
	return imageList(body)
}

type wirePicture struct {
	Data    string `json:"b64_json"`
	URL     string `json:"url"`
	Revised string `json:"revised_prompt"`
}

type wirePictureFacts struct {
	Created    int64  `json:"created"`
	CreatedAt  int64  `json:"created_at"`
	Background string `json:"background"`
	Format     string `json:"output_format"`
	Quality    string `json:"quality"`
	Size       string `json:"size"`
}

func (w wirePictureFacts) canonical() llm.Image {
	return llm.Image{Created: max(w.Created, w.CreatedAt), Background: w.Background, Format: w.Format, Quality: w.Quality, Size: w.Size}
}

// content is the image in base64. An address is no use: it may lead anywhere, and nothing is fetched for a client.
func (w wirePicture) content() (data, format string, err error) {
	data = w.Data
	if data == "" {
		if head, rest, ok := strings.Cut(w.URL, ";base64,"); ok && strings.HasPrefix(head, "data:image/") {
			data = rest
		}
	}
	if data == "" && w.URL != "" {
		return "", "", dialect.UpstreamFault("the model server sent the address of an image instead of the image", errors.New("response_format b64_json was not kept"))
	}
	if format = imageFormat(data); format == "" {
		return "", "", dialect.UpstreamFault("the model server sent something that is no image", errors.New(sample([]byte(data))))
	}
	return data, format, nil
}

// imageFormat tells the format of an image in base64 by its first bytes; it is empty if it is none of ours or no base64.
func imageFormat(data string) string {
	for i := range len(data) {
		switch c := data[i]; {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '+', c == '/':
		case c == '=' && i >= len(data)-2:
		default:
			return ""
		}
	}
	if len(data)%4 != 0 || len(data) < 16 {
		return ""
	}
	head, err := base64.StdEncoding.DecodeString(data[:16])
	if err != nil {
		return ""
	}
	switch {
	case strings.HasPrefix(string(head), "\x89PNG\r\n\x1a\n"):
		return "png"
	case strings.HasPrefix(string(head), "\xff\xd8\xff"):
		return "jpeg"
	case strings.HasPrefix(string(head), "RIFF") && string(head[8:12]) == "WEBP":
		return "webp"
	default:
		return ""
	}
}

// imageList reads a JSON body without having more than one image in memory.
func imageList(body io.Reader) llm.MediaStream {
	return func(yield func(llm.MediaEvent, error) bool) {
		d := imageLister{dec: json.NewDecoder(body), yield: yield, members: map[string]json.RawMessage{}}
		stopped, err := d.read()
		switch {
		case stopped:
		case err != nil:
			yield(llm.MediaEvent{}, err)
		default:
			yield(d.done())
		}
	}
}

type imageLister struct {
	dec     *json.Decoder
	yield   func(llm.MediaEvent, error) bool
	n       int
	members map[string]json.RawMessage // beside data
}

func (d *imageLister) read() (stopped bool, err error) {
	if err := d.open('{'); err != nil {
		return false, err
	}
	for d.dec.More() {
		key, err := d.dec.Token()
		if err != nil {
			return false, badImages(err)
		}
		name, _ := key.(string) // keys of objects are texts
		if name == "data" {
			if stopped, err := d.images(); stopped || err != nil {
				return stopped, err
			}
			continue
		}
		var raw json.RawMessage
		if err := d.dec.Decode(&raw); err != nil {
			return false, badImages(err)
		}
		if len(d.members) < 64 {
			d.members[name] = raw
		}
	}
	if _, err := d.dec.Token(); err != nil { // the end of the object
		return false, badImages(err)
	}
	return false, nil
}

func (d *imageLister) open(want json.Delim) error {
	token, err := d.dec.Token()
	if err != nil {
		return badImages(err)
	}
	if token != want {
		return badImages(fmt.Errorf("%v where %v is expected", token, want))
	}
	return nil
}

func (d *imageLister) images() (stopped bool, err error) {
	if err := d.open('['); err != nil {
		return false, err
	}
	for d.dec.More() {
		var w wirePicture
		if err := d.dec.Decode(&w); err != nil {
			return false, badImages(err)
		}
		data, format, err := w.content()
		if err != nil {
			return false, err
		}
		image := &llm.Image{Data: data, Format: format, Index: d.n, RevisedPrompt: w.Revised}
		d.n++
		if !d.yield(llm.MediaEvent{Kind: llm.MediaImage, Image: image}, nil) {
			return true, nil
		}
	}
	if _, err := d.dec.Token(); err != nil { // the end of the list
		return false, badImages(err)
	}
	return false, nil
}

func badImages(err error) error {
	var bad *json.SyntaxError
	if errors.As(err, &bad) {
		return dialect.UpstreamFault("the model server sent something that is not JSON", err)
	}
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) {
		return dialect.UpstreamFault("the model server sent an unusable image", err)
	}
	return dialect.ReadFault(err)
}

func (d *imageLister) done() (llm.MediaEvent, error) {
	all, err := json.Marshal(d.members)
	if err != nil {
		return llm.MediaEvent{}, badImages(err)
	}
	if e, ok := dialect.ParseUpstreamError(all); ok && d.n == 0 {
		return llm.MediaEvent{}, e.Classify(0)
	}
	if d.n == 0 {
		return llm.MediaEvent{}, dialect.UpstreamFault("the model server sent no image", errors.New(sample(all)))
	}
	var facts wirePictureFacts
	if err := json.Unmarshal(all, &facts); err != nil {
		facts = wirePictureFacts{} // what is said beside the images is of no weight
	}
	image := facts.canonical()
	return llm.MediaEvent{Kind: llm.MediaDone, Image: &image, Usage: readMediaUsage(d.members["usage"])}, nil
}

// imageDecoder reads one stream of images. The one that is complete ends it.
type imageDecoder struct {
	completed int
	done      llm.MediaEvent
}

func (d *imageDecoder) event(data []byte) (llm.MediaEvent, bool, error) {
	var w struct {
		Type  string          `json:"type"`
		Index int             `json:"partial_image_index"`
		Usage json.RawMessage `json:"usage"`
		wirePicture
		wirePictureFacts
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return llm.MediaEvent{}, false, dialect.UpstreamFault("the model server sent an unusable event", err)
	}
	partial := false
	switch w.Type {
	case "image_generation.partial_image", "image_edit.partial_image":
		partial = true
	case "image_generation.completed", "image_edit.completed":
	default:
		return llm.MediaEvent{}, false, nil
	}
	content, format, err := w.content()
	if err != nil {
		return llm.MediaEvent{}, false, err
	}
	image := w.canonical()
	image.Data, image.Format, image.Partial, image.Index = content, format, partial, max(w.Index, 0)
	ev := llm.MediaEvent{Kind: llm.MediaImage, Image: &image}
	if !partial {
		image.Index = d.completed
		d.completed++
		ev.Usage = readMediaUsage(w.Usage)
		facts := w.canonical()
		d.done = llm.MediaEvent{Kind: llm.MediaDone, Image: &facts, Usage: ev.Usage}
	}
	return ev, true, nil
}

func (d *imageDecoder) end() (llm.MediaEvent, error) {
	if d.completed == 0 {
		return unfinished()
	}
	return d.done, nil
}

// ImageReply is what the form of an answer depends on beside the images.
type ImageReply struct {
	Created int64 // seconds since 1970
	URL     bool
	Edit    bool
}

// ImageWriter writes a whole answer, one image after the other.
type ImageWriter struct {
	w io.Writer
	o ImageReply
	n int
}

// NewImageWriter returns the writer of one answer.
func NewImageWriter(w io.Writer, o ImageReply) *ImageWriter { return &ImageWriter{w: w, o: o} }

// Encode writes one event. The body is complete after the event of kind Done, and no JSON before it.
func (e *ImageWriter) Encode(ev llm.MediaEvent) error {
	var b []byte
	switch {
	case ev.Kind == llm.MediaImage && !ev.Image.Partial:
		b = e.image(ev.Image)
	case ev.Kind == llm.MediaDone:
		var err error
		if b, err = e.tail(ev); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err := e.w.Write(b)
	return err
}

func (e *ImageWriter) image(image *llm.Image) []byte {
	b := make([]byte, 0, len(image.Data)+len(image.RevisedPrompt)+128)
	if e.n == 0 {
		b = append(b, `{"created":`...)
		b = strconv.AppendInt(b, e.o.Created, 10)
		b = append(b, `,"data":[`...)
	} else {
		b = append(b, ',')
	}
	e.n++
	if e.o.URL {
		b = append(b, `{"url":"data:image/`+image.Format+`;base64,`...)
	} else {
		b = append(b, `{"b64_json":"`...)
	}
	b = append(append(b, image.Data...), '"')
	if image.RevisedPrompt != "" {
		b = append(b, `,"revised_prompt":`...)
		b = dialect.AppendString(b, image.RevisedPrompt)
	}
	return append(b, '}')
}

func (e *ImageWriter) tail(ev llm.MediaEvent) ([]byte, error) {
	v := map[string]any{}
	if ev.Image != nil {
		for name, text := range map[string]string{
			"background": ev.Image.Background, "output_format": ev.Image.Format, "quality": ev.Image.Quality, "size": ev.Image.Size,
		} {
			if text != "" {
				v[name] = text
			}
		}
	}
	if ev.Usage != nil && ev.Usage.Total() > 0 {
		v["usage"] = encodeTokens(ev.Usage, "input_tokens_details", "image_tokens", false)
	}
	out, err := marshal(v, nil)
	if err != nil {
		return nil, err
	}
	if len(v) == 0 {
		return []byte("]}\n"), nil
	}
	return append(append([]byte("],"), out[1:]...), '\n'), nil
}

// NewImageEncoder returns the encoder of streamed images.
func NewImageEncoder(w io.Writer, o ImageReply) *MediaEncoder {
	prefix := "image_generation."
	if o.Edit {
		prefix = "image_edit."
	}
	return &MediaEncoder{w: w, named: true, event: func(ev llm.MediaEvent) (string, any) {
		if ev.Kind != llm.MediaImage {
			return "", nil
		}
		created := ev.Image.Created
		if created == 0 {
			created = o.Created
		}
		v := map[string]any{
			"b64_json": ev.Image.Data, "created_at": created, "output_format": ev.Image.Format,
			"background": orAuto(ev.Image.Background), "quality": orAuto(ev.Image.Quality), "size": orAuto(ev.Image.Size),
		}
		name := prefix + "completed"
		if ev.Image.Partial {
			name = prefix + "partial_image"
			v["partial_image_index"] = ev.Image.Index
		} else {
			usage := ev.Usage
			if usage == nil {
				usage = &llm.MediaUsage{}
			}
			v["usage"] = encodeTokens(usage, "input_tokens_details", "image_tokens", false)
		}
		v["type"] = name
		return name, v
	}}
}

func orAuto(s string) string {
	if s == "" {
		return "auto"
	}
	return s
}
