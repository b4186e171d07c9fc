package openai

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/bmp"

	"mobilegate/agent"
	"mobilegate/agent/openai/openaitest"
)

func pictureOf(t *testing.T) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))))
	return b.Bytes()
}

func TestPictures(t *testing.T) {
	data := pictureOf(t)
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(data)
	play(t, openaitest.Script{}, nil, func(t *testing.T, s *stage) {
		show := agent.Turn{Text: "what is it?", File: fileOf("image", "image/wrong", "a\"b.png", data)}
		require.Equal(t, "turn 1: [image \"a\\\"b.png\"]\n\nwhat is it?", s.hears(show))
		first := s.last().Messages[0]
		require.Equal(t, url, first.Image)
		require.NotEmpty(t, s.sayAs(agent.Owner{Device: owner.Device, Entry: "other"}, "and for me?"))
		require.Empty(t, s.last().Messages[0].Image, "another owner")

		for i := range 5 {
			s.say("and?")
			require.Equal(t, i < pictureTurns-1, s.last().Messages[0].Image == url, i)
			require.Equal(t, first.Text, s.last().Messages[0].Text)
			require.Empty(t, s.last().Messages[2].Image)
		}
		require.Zero(t, s.pictures.used)

		s.hears(show)
		s.say("/new")
		require.Equal(t, "turn 1: and?", s.say("and?"))
		require.Empty(t, s.last().Messages[0].Image)

		require.Equal(t, "turn 2: [image]", s.hears(agent.Turn{File: fileOf("image", "", "", data)}))
		require.Equal(t, "turn 3: [image \"2\"]", s.hears(agent.Turn{File: fileOf("image", "", "2", data)}))
		require.Equal(t, url, s.last().Messages[2].Image)
		s.say("which one?")
		require.Empty(t, s.last().Messages[2].Image, "only the last one is sent again")
		require.Equal(t, url, s.last().Messages[4].Image)
	})
}

func TestPicturesAreMadeToFit(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, bmp.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 30))))
	play(t, openaitest.Script{}, func(c *Config) { c.MaxImage = 1000 }, func(t *testing.T, s *stage) {
		s.hears(agent.Turn{File: fileOf("image", "image/bmp", "x.bmp", b.Bytes())})
		data, ok := strings.CutPrefix(s.last().Messages[0].Image, "data:image/jpeg;base64,")
		require.True(t, ok)
		small, err := base64.StdEncoding.DecodeString(data)
		require.NoError(t, err)
		require.LessOrEqual(t, len(small), 1000)
		c, err := jpeg.DecodeConfig(bytes.NewReader(small))
		require.NoError(t, err)
		require.Equal(t, 40, c.Width)

		_, f := s.fails(agent.Turn{File: fileOf("image", "image/png", "x.png", []byte("no picture"))})
		require.Contains(t, f.Tell, "JPEG or PNG")
		_, f = s.fails(agent.Turn{File: fileOf("image", "image/png", "x.png", nil)})
		require.Contains(t, f.Tell, "could not be read")
		require.Len(t, s.api.Requests(), 1)
	})
}

// Pictures that wait to be asked about again are bounded, and give way to newer ones.
func TestPicturesInMemory(t *testing.T) {
	s := newShelf(maxPictures, shown.size)
	url := strings.Repeat("x", 4<<20)
	for i := range 20 {
		s.update(agent.Owner{Device: string(rune('a' + i))}, func(shown) shown { return shown{url: url} })
		require.LessOrEqual(t, s.used, maxPictures)
	}
	require.Len(t, s.of, 7)
	require.NotEmpty(t, s.get(agent.Owner{Device: "t"}).url)
	require.Empty(t, s.get(agent.Owner{Device: "m"}).url)
}

func TestPlacesForFiles(t *testing.T) {
	data := pictureOf(t)
	play(t, openaitest.Script{Pace: openaitest.Duration(time.Second)}, func(c *Config) { c.MaxFiles = 1 }, func(t *testing.T, s *stage) {
		start := time.Now()
		done := make(chan string)
		for _, device := range []string{"a", "b", "c"} {
			o := agent.Owner{Device: device}
			go func() { done <- s.hears(agent.Turn{Owner: o, File: fileOf("image", "", "", data)}) }()
		}
		go func() { done <- s.say("a text") }() // four words
		ends := map[string]time.Duration{}
		for range 4 {
			ends[<-done] = time.Since(start)
		}
		require.Equal(t, map[string]time.Duration{"turn 1: a text": 4 * time.Second, "turn 1: [image]": 9 * time.Second}, ends, "one file at a time")
	})
}

func TestDocuments(t *testing.T) {
	long := strings.Repeat("строка\n", 4000)
	for name, c := range map[string]struct {
		file *agent.File
		text string
		want string // of the question; or the reply
		ask  bool
	}{
		"a table":     {fileOf("document", "text/csv", "a.csv", []byte("a;b\r\n1;2")), "sum?", "[document \"a.csv\"]\na;b\r\n1;2\n[end of the document]\n\nsum?", true},
		"by content":  {fileOf("document", "application/octet-stream", "", []byte("package main")), "", "[document]\npackage main\n[end of the document]", true},
		"cut":         {fileOf("document", "text/plain", "", []byte(long)), "", "[document]\n" + long[:maxDocument-2] + "\n[the rest of the document was left out]", true},
		"no text":     {fileOf("document", "text/plain", "a.pdf", []byte("%PDF\x00\x01")), "", "I cannot open a file of this kind. I can look at pictures and read files of plain text.", false},
		"no UTF-8":    {fileOf("document", "text/plain", "a.txt", []byte("caf\xe9")), "", "I cannot open a file of this kind. I can look at pictures and read files of plain text.", false},
		"with a word": {fileOf("document", "application/pdf", "a.pdf", []byte("%PDF\x00")), "what now?", "[document \"a.pdf\", which cannot be shown to you]\n\nwhat now?", true},
		"a film":      {fileOf("video", "video/mp4", "v.mp4", []byte("xx")), "", "I cannot open a file of this kind. I can look at pictures and read files of plain text.", false},
		"a named one": {fileOf("video", "video/mp4", "v.mp4", []byte("xx")), "nice?", "[video \"v.mp4\", which cannot be shown to you]\n\nnice?", true},
		"no command":  {fileOf("video", "video/mp4", "", []byte("xx")), "/new", "[video, which cannot be shown to you]\n\n/new", true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, openaitest.Script{Steps: []openaitest.Step{{Plain: true}}}, nil, func(t *testing.T, s *stage) {
				got := s.hears(agent.Turn{Text: c.text, File: c.file})
				if !c.ask {
					require.Equal(t, c.want, got)
					require.Empty(t, s.api.Requests())
					return
				}
				require.Equal(t, "turn 1: "+c.want, got)
				require.Equal(t, c.want, s.last().Messages[0].Text)
			})
		})
	}
	play(t, openaitest.Script{}, nil, func(t *testing.T, s *stage) {
		_, f := s.fails(agent.Turn{File: fileOf("document", "text/plain", "x", nil)})
		require.Contains(t, f.Tell, "could not be read")
	})
}

func TestRecordings(t *testing.T) {
	wave := fileOf("audio", "audio/wav", "../../my voice.WAV", []byte("RIFF...."))
	play(t, openaitest.Script{}, nil, func(t *testing.T, s *stage) {
		require.Contains(t, s.hears(agent.Turn{File: wave}), "cannot listen")
		require.Equal(t, "turn 1: what I said", s.hears(agent.Turn{Text: "what I said", File: wave}))
	})
	steps := []openaitest.Step{{}, {}, {Status: 503}, {Text: "привет\n"}, {}, {Text: " "}, {Status: 400}, {Body: "{}"}, {Body: "{}"}, {Body: "{}"}, {Body: "{}"}}
	play(t, openaitest.Script{Steps: steps}, func(c *Config) { c.TranscribeModel = "ears-1" }, func(t *testing.T, s *stage) {
		require.Equal(t, "turn 1: a recording of 8 bytes", s.hears(agent.Turn{File: wave}))
		r := s.api.Requests()[0]
		require.Equal(t, openaitest.Request{Host: "model.test", Path: "/v1/audio/transcriptions", Key: testKey, Model: "ears-1", File: "recording.wav", Bytes: 8}, r)

		ogg := fileOf("audio", "audio/ogg", "", []byte("OggS"))
		require.Equal(t, "turn 2: привет", s.hears(agent.Turn{File: ogg}), "the second time")
		require.Equal(t, "recording.ogg", s.api.Requests()[2].File)
		require.Contains(t, s.hears(agent.Turn{File: ogg}), "could not hear")
		_, f := s.fails(agent.Turn{File: ogg})
		require.Contains(t, f.Tell, "recording")
		_, f = s.fails(agent.Turn{File: ogg})
		require.Contains(t, f.Tell, "has failed")
	})
}

func TestLongTranscript(t *testing.T) {
	wave := fileOf("audio", "audio/wav", "", []byte("RIFF"))
	for _, step := range []openaitest.Step{{Text: strings.Repeat("a ", maxTranscript)}, {Body: strings.Repeat(" ", 5*maxTranscript)}, {Wait: hour}} {
		play(t, openaitest.Script{Steps: []openaitest.Step{step}}, func(c *Config) { c.TranscribeModel = "ears-1" }, func(t *testing.T, s *stage) {
			s.fails(agent.Turn{File: wave})
			require.Equal(t, "turn 1: a recording of 4 bytes", s.hears(agent.Turn{File: wave}))
		})
	}
}

// TestRecordingsOfAnyType: what a device calls its recording reaches no service, and a type that is none is no fault of
// the service, whose circuit is everybody's.
func TestRecordingsOfAnyType(t *testing.T) {
	play(t, openaitest.Script{}, func(c *Config) { c.TranscribeModel = "ears-1" }, func(t *testing.T, s *stage) {
		for mime, want := range map[string]string{
			"audio/ogg": ".ogg", "Audio/MPEG": ".mp3", "audio/x-m4a": ".m4a", "audio/webm;codecs=opus": ".webm", "audio/flac": ".flac", "audio/wav": ".wav",
			"": ".wav", "a b": ".wav", "audio": ".wav", "audio/ogg\r\nX: y": ".wav", "\x00": ".wav",
		} {
			n := len(s.api.Requests())
			s.hears(agent.Turn{File: fileOf("audio", mime, "", []byte("sound"))})
			require.Equal(t, "recording"+want, s.api.Requests()[n].File, mime)
		}
		require.Zero(t, s.Health().Failures)
	})
}
