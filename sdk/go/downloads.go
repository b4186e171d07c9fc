package hermes

import "slices"

// Downloads joins the chunks of files, in whichever order they come. The zero value is ready to use. It keeps only files
// that are not complete; start a new one at each Ready, since a file that was cut off does not go on. Not for concurrent use.
type Downloads struct {
	open map[string]*download
}

type download struct {
	parts   [][]byte // nil: yet to come
	missing int
	held    int // bytes
}

// What a gateway that never ends its files can make an application keep: so many of MaxMediaBytes each.
const (
	maxDownloads = 8
	maxParts     = 2048
)

// Add takes a frame; done says that it completes a file, and content is that file. A file with a URL has none: fetch it.
// A file in chunks that is of another size than announced, or over MaxMediaBytes, is dropped and never done.
func (d *Downloads) Add(m *Media) (content []byte, done bool) {
	if m.Parts == 1 || m.Data == nil {
		return m.Data, true
	}
	if m.Parts < 1 || m.Parts > maxParts || m.Part < 0 || m.Part >= m.Parts {
		return nil, false
	}
	f := d.open[m.ID]
	if f == nil && len(d.open) >= maxDownloads {
		return nil, false
	}
	if f == nil || len(f.parts) != m.Parts { // begun, or begun again as another file
		f = &download{parts: make([][]byte, m.Parts), missing: m.Parts}
		if d.open == nil {
			d.open = map[string]*download{}
		}
		d.open[m.ID] = f
	}
	if f.parts[m.Part] == nil {
		f.missing--
	}
	f.held += len(m.Data) - len(f.parts[m.Part])
	f.parts[m.Part] = m.Data
	if f.missing > 0 && f.held <= min(m.Size, MaxMediaBytes) {
		return nil, false
	}
	delete(d.open, m.ID)
	if f.held != m.Size || f.held > MaxMediaBytes {
		return nil, false
	}
	return slices.Concat(f.parts...), true
}
