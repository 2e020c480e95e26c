package llm

import (
	"encoding/json"
	"io"
	"iter"
	"time"
)

// File is content that a client uploaded. It lies outside memory; whoever received it says how long it can be read.
type File struct {
	Format    string // such as wav or png, by the content and not by what the client says
	MediaType string
	Size      int64 // bytes
	// Duration is that of a sound whose header tells it; 0 if unknown.
	Duration time.Duration
	// Content may be read several times and concurrently.
	Content io.ReaderAt `json:"-"`
}

// Reader returns a reader of the whole file.
func (f File) Reader() io.Reader { return io.NewSectionReader(f.Content, 0, f.Size) }

// SpeechRequest asks for a text to be spoken.
type SpeechRequest struct {
	Model        string
	Input        string
	Voice        string // name of a voice; empty if VoiceID is set
	VoiceID      string // id of a custom voice
	Instructions string
	Format       string // mp3, opus, aac, flac, wav or pcm
	Speed        *float64
	Stream       bool // the client wants events; otherwise the bytes of the sound
	Origin       Dialect
	Extra        map[string]json.RawMessage
}

// TranscriptFormat is the form in which a client wants a [Transcript].
type TranscriptFormat string

// Transcript formats.
const (
	TranscriptJSON     TranscriptFormat = "json"
	TranscriptText     TranscriptFormat = "text"
	TranscriptSRT      TranscriptFormat = "srt"
	TranscriptVTT      TranscriptFormat = "vtt"
	TranscriptVerbose  TranscriptFormat = "verbose_json"
	TranscriptDiarized TranscriptFormat = "diarized_json"
)

// TranscriptionRequest asks for the text of a sound, in its own language or in English.
type TranscriptionRequest struct {
	Model       string
	File        File
	Translate   bool // into English
	Language    string
	Languages   []string // that may occur
	Prompt      string
	Keywords    []string
	Temperature *float64
	Format      TranscriptFormat
	Words       bool            // times of words
	Segments    bool            // times of segments
	Logprobs    bool            // of the tokens of the text
	Chunking    json.RawMessage // how the sound is cut: "auto", or an object; nil for the backend's default
	// SpeakerNames and SpeakerSamples are voices to be recognised: names, and data URIs of sounds in the same order.
	SpeakerNames   []string
	SpeakerSamples []string `json:"-"`
	Stream         bool
	Origin         Dialect
	Extra          map[string]json.RawMessage
}

// ImageRequest asks for images: new ones, or changed ones if Edit is set.
type ImageRequest struct {
	Model         string
	Prompt        string
	Edit          bool
	Images        []File // what is changed
	Mask          *File  // transparent where it may be changed
	N             *int   // number of images; nil means 1
	Size          string // WIDTHxHEIGHT in pixels, or auto; empty for the backend's default
	Quality       string
	Style         string
	Background    string
	Moderation    string
	Fidelity      string // how closely an edit keeps to what it changes
	Format        string // png, jpeg or webp; empty for the backend's default
	Compression   *int   // percent
	PartialImages *int   // how many steps on the way a stream shows
	URL           bool   // the client wants addresses instead of base64
	Stream        bool
	EndUser       string
	Origin        Dialect
	Extra         map[string]json.RawMessage
}

// MediaStream is an answer of speech, transcription or images as it arrives. It obeys the rules of [Stream].
type MediaStream = iter.Seq2[MediaEvent, error]

// MediaKind is the kind of a [MediaEvent].
type MediaKind string

// Media event kinds. A complete answer ends with exactly one Done; an answer without it has failed.
const (
	MediaAudio     MediaKind = "audio"   // the next bytes of a sound
	MediaText      MediaKind = "text"    // the next bytes of a transcript
	MediaSegment   MediaKind = "segment" // a part of a transcript with its times
	MediaImage     MediaKind = "image"   // an image, or a step on the way to one
	MediaDone      MediaKind = "done"
	MediaKeepAlive MediaKind = "keep_alive" // the backend is silent but alive
)

// MediaEvent is one step of an answer of speech, transcription or images. It and what it points to are valid until the
// next step.
type MediaEvent struct {
	Kind MediaKind

	Audio []byte
	// AudioFormat is the format of the sound if the backend says which; it may differ from what was asked.
	AudioFormat string

	Text       string          // MediaText
	Logprobs   json.RawMessage // MediaText: a JSON array of tokens in OpenAI's form
	Segment    *Segment        // MediaSegment
	Transcript *Transcript     // MediaDone of a transcription: the whole
	// Image is an image, or at MediaDone what is true of all of them, without Data.
	Image *Image
	Usage *MediaUsage // MediaDone, if the backend told it
}

// Semantic reports whether the event carries a part of the answer. There is no retry after it.
func (e MediaEvent) Semantic() bool { return e.Kind != MediaKeepAlive }

// MediaUsage is what a backend says that an answer took: tokens, or seconds of sound.
type MediaUsage struct {
	Usage
	// TextInput and MediaInput are parts of Input; both 0 if the backend does not tell.
	TextInput, MediaInput int
	Seconds               float64
}

// Transcript is the text of a sound.
type Transcript struct {
	Text      string
	Language  string   // as the backend names it
	Languages []string // codes of the languages that were found
	Duration  float64  // of the sound, in seconds; 0 if unknown
	Words     []Word
	Segments  []Segment
	Logprobs  json.RawMessage
}

// Word is a word with its times in seconds.
type Word struct {
	Text       string
	Start, End float64
}

// Segment is a part of a transcript with its times in seconds.
type Segment struct {
	ID         string
	Start, End float64
	Text       string
	Speaker    string

	Seek             int
	Tokens           []int
	Temperature      float64
	AvgLogprob       float64
	CompressionRatio float64
	NoSpeechProb     float64
}

// Image is a generated image.
type Image struct {
	Data          string `json:"-"` // base64 in the standard alphabet, checked
	Partial       bool   // a step on the way; Index counts them
	Index         int
	RevisedPrompt string
	Created       int64  // seconds since 1970; 0 if unknown
	Format        string // png, jpeg or webp
	Background    string
	Quality       string
	Size          string
}
