package simbackend

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strconv"
)

// pictureSide is the width and the height of the images that are drawn, in pixels, whatever size was asked for.
const pictureSide = 16

// paint draws a PNG whose pixels depend on the text, and on nothing else.
func paint(text string) []byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	sum := h.Sum64()
	img := image.NewRGBA(image.Rect(0, 0, pictureSide, pictureSide))
	for y := range pictureSide {
		for x := range pictureSide {
			v := (sum + uint64(y*pictureSide+x)) * 0x9e3779b97f4a7c15
			img.Set(x, y, color.RGBA{R: uint8(v >> 56), G: uint8(v >> 48), B: uint8(v >> 40), A: 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // an image of fixed size into memory
	}
	return b.Bytes()
}

// drawing is a request for images.
type drawing struct {
	Model         string `json:"model"`
	Prompt        string `json:"prompt"`
	N             int    `json:"n"`
	Size          string `json:"size"`
	Response      string `json:"response_format"`
	Stream        bool   `json:"stream"`
	PartialImages int    `json:"partial_images"`

	prefix string // of the events
	basis  string // what is edited
}

// draw answers POST /v1/images/generations.
func (s *Server) draw(x *exchange) {
	d := drawing{prefix: "image_generation."}
	if err := json.Unmarshal(x.body, &d); err != nil {
		x.refuse(badBody(err))
		return
	}
	s.drawn(x, d)
}

// redraw answers POST /v1/images/edits.
func (s *Server) redraw(x *exchange) {
	f, no := x.form()
	if no != nil {
		x.refuse(no)
		return
	}
	d := drawing{
		Model: f.value("model"), Prompt: f.value("prompt"), Size: f.value("size"), Response: f.value("response_format"),
		Stream: f.value("stream") == "true", prefix: "image_edit.",
	}
	d.N, _ = strconv.Atoi(f.value("n")) // absent
	d.PartialImages, _ = strconv.Atoi(f.value("partial_images"))
	for _, data := range append(append(f.files["image"], f.files["image[]"]...), f.files["mask"]...) {
		if _, err := png.DecodeConfig(bytes.NewReader(data)); err != nil {
			x.refuse(refuse(http.StatusBadRequest, "image is no PNG"))
			return
		}
		d.basis += string(data)
	}
	if d.basis == "" {
		x.refuse(refuse(http.StatusBadRequest, "image is required"))
		return
	}
	s.drawn(x, d)
}

func (s *Server) drawn(x *exchange, d drawing) {
	j, no := s.mediaJob(d.Model, CapImage, d.Prompt)
	if no == nil && d.Prompt == "" {
		no = refuse(http.StatusBadRequest, "prompt is required")
	}
	if no != nil {
		x.refuse(no)
		return
	}
	d.N = max(d.N, 1)
	x.wantsStream = d.Stream
	var data []object
	steps := d.N
	if d.Stream {
		steps += d.PartialImages
	}
	s.playMedia(x, j, steps, func(i int) error {
		if d.Stream && i < d.PartialImages {
			return x.event(object{
				"type": d.prefix + "partial_image", "partial_image_index": i, "b64_json": d.image(i - d.PartialImages),
				"created_at": s.born.Unix(), "size": "1024x1024", "quality": "high", "background": "opaque", "output_format": "png",
			})
		}
		if d.Stream {
			i -= d.PartialImages
			return x.event(object{
				"type": d.prefix + "completed", "b64_json": d.image(i), "usage": drawnUsage(usage{prompt: j.tokens}, i+1),
				"created_at": s.born.Unix(), "size": "1024x1024", "quality": "high", "background": "opaque", "output_format": "png",
			})
		}
		if d.Response == "b64_json" {
			data = append(data, object{"b64_json": d.image(i), "revised_prompt": "A picture of: " + d.Prompt})
		} else {
			data = append(data, object{"url": "http://images.invalid/" + strconv.Itoa(i) + ".png"})
		}
		return nil
	}, func(u usage) error {
		if d.Stream {
			return nil
		}
		return x.reply(200, object{
			"created": s.born.Unix(), "data": data, "usage": drawnUsage(u, d.N), "size": "1024x1024", "quality": "high", "output_format": "png",
		})
	})
}

func (d drawing) image(i int) string {
	return base64.StdEncoding.EncodeToString(paint(d.Prompt + "\x00" + d.basis + "\x00" + strconv.Itoa(i)))
}

func drawnUsage(u usage, images int) object {
	const each = 1056
	return object{
		"input_tokens": u.prompt, "output_tokens": each * images, "total_tokens": u.prompt + each*images,
		"input_tokens_details": object{"text_tokens": u.prompt, "image_tokens": 0},
	}
}
