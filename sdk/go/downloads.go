package hermes

// Downloads joins the chunks of files, which come in order. The zero value is ready to use. It keeps only files that are
// not complete; start a new one at each Ready, since a file that was cut off does not go on. Not for concurrent use.
type Downloads struct {
	open map[string]download
}

type download struct {
	content []byte
	next    int // part to come
}

// maxDownloads bounds what a gateway that never ends its files can make an application keep: so many of MaxMediaBytes.
const maxDownloads = 8

// Add takes a frame; done says that it was the last one of a file, and content is that file. A file with a URL has none:
// fetch it. A file with a gap, of another size than announced or over MaxMediaBytes is dropped, and its last frame is not
// done.
func (d *Downloads) Add(m *Media) (content []byte, done bool) {
	f := d.open[m.ID]
	delete(d.open, m.ID)
	if m.Part == 0 {
		f = download{} // begun, or begun again
	}
	if m.Part != f.next || len(f.content)+len(m.Data) > min(m.Size, MaxMediaBytes) {
		return nil, false
	}
	f.content = append(f.content, m.Data...)
	f.next++
	switch {
	case m.Final && (m.URL != "" || len(f.content) == m.Size):
		return f.content, true
	case !m.Final && len(d.open) < maxDownloads:
		if d.open == nil {
			d.open = map[string]download{}
		}
		d.open[m.ID] = f
	}
	return nil, false
}
