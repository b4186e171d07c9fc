package hermes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const MediaChunkBytes = 3 * 1024 * 1024 // of a file's content in one frame

// Upload is a file for the agent. Its content is Data, or is read from the file at Path, or from Reader to its end.
type Upload struct {
	ID       string // empty: a new one
	Kind     string // image, video, document or audio
	Mime     string // empty: what the extension of the name stands for
	Filename string // empty: that of Path
	Caption  string // for audio: the transcript

	Data   []byte
	Reader io.Reader
	Path   string

	ChunkBytes int // of the content in one frame; 0 means MediaChunkBytes
}

var uploadKinds = []string{"image", "video", "document", "audio"}

// SendMedia sends a file, cut into frames of [MediaChunkBytes], all over one connection, and returns its id. When that
// connection breaks in between, all of it has to be sent again: with the same ID, the agent gets it once.
func (c *Client) SendMedia(ctx context.Context, u Upload) (id string, err error) {
	f := chunk{ID: u.ID, Kind: strings.ToLower(u.Kind), Mime: u.Mime, Filename: u.Filename, Caption: u.Caption}
	if !slices.Contains(uploadKinds, f.Kind) {
		return "", fmt.Errorf("the kind of a file must be one of %v", uploadKinds)
	}
	content, err := u.read()
	if err != nil {
		return "", err
	}
	conn := c.session.current()
	if conn == nil {
		return "", ErrOffline
	}
	if f.ID == "" {
		f.ID = NewID()
	}
	if f.Filename == "" && u.Path != "" {
		f.Filename = filepath.Base(u.Path)
	}
	if f.Mime == "" {
		f.Mime = guessMime(f.Filename)
	}
	size := u.ChunkBytes
	if size <= 0 {
		size = MediaChunkBytes
	}
	return f.ID, conn.upload(ctx, f, content, size)
}

func (c *Conn) upload(ctx context.Context, f chunk, content []byte, size int) error {
	f.Parts = (len(content) + size - 1) / size
	for f.Data = range slices.Chunk(content, size) {
		if err := c.Send(ctx, f); err != nil {
			return err
		}
		f.Part++
	}
	return nil
}

// read holds the whole content, since a chunk says how many there are: at most MaxMediaBytes of it.
func (u *Upload) read() (content []byte, err error) {
	from := u.Reader
	if u.Path != "" {
		file, err := os.Open(u.Path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	content = u.Data
	if from != nil {
		content, err = io.ReadAll(io.LimitReader(from, MaxMediaBytes+1))
	}
	if err != nil {
		return nil, err
	}
	return content, checkFile(content)
}

// checkFile keeps files from the gateway that it would not take; one over MaxFrameBytes would end the connection for good.
func checkFile(content []byte) error {
	switch {
	case len(content) == 0:
		return errors.New("the file is empty")
	case len(content) > MaxMediaBytes:
		return fmt.Errorf("the file is too big: at most %d bytes can be sent", MaxMediaBytes)
	}
	return nil
}

// chunk is one frame of an Upload.
type chunk struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Mime     string `json:"mime,omitempty"`
	Filename string `json:"filename,omitempty"`
	Caption  string `json:"caption,omitempty"`
	Data     []byte `json:"data"`
	Part     int    `json:"part"`
	Parts    int    `json:"parts"`
}

func (f chunk) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		chunk
	}{kind{"media"}, f})
}

// mimeTypes of the files that applications send, by extension.
var mimeTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".heic": "image/heic", ".bmp": "image/bmp", ".svg": "image/svg+xml", ".mp4": "video/mp4", ".mov": "video/quicktime",
	".webm": "video/webm", ".mkv": "video/x-matroska", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".oga": "audio/ogg",
	".opus": "audio/ogg", ".wav": "audio/wav", ".m4a": "audio/mp4", ".aac": "audio/aac", ".flac": "audio/flac",
	".pdf": "application/pdf", ".zip": "application/zip", ".json": "application/json", ".txt": "text/plain",
	".md": "text/markdown", ".csv": "text/csv", ".html": "text/html", ".doc": "application/msword",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xls":  "application/vnd.ms-excel",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".ppt":  "application/vnd.ms-powerpoint",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

func guessMime(filename string) string {
	return cmp.Or(mimeTypes[strings.ToLower(filepath.Ext(filename))], "application/octet-stream")
}
