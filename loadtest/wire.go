package loadtest

import (
	"encoding/json"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// wireFigures are Figures on their way from a shard: histograms in the format of the HdrHistogram project.
type wireFigures struct {
	Spans  [spans][]byte
	Counts [counts]int64
	Notes  map[string]int64
}

// MarshalJSON and UnmarshalJSON carry Figures from a shard.
func (f *Figures) MarshalJSON() ([]byte, error) {
	w := wireFigures{Counts: f.Counts, Notes: f.Notes}
	for i, h := range f.Spans {
		var err error
		if w.Spans[i], err = h.Encode(hdr.V2CompressedEncodingCookieBase); err != nil {
			return nil, err
		}
	}
	return json.Marshal(w)
}

func (f *Figures) UnmarshalJSON(b []byte) error {
	var w wireFigures
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*f = *newFigures()
	f.Counts = w.Counts
	for what, n := range w.Notes {
		f.Notes[what] = n
	}
	for i, encoded := range w.Spans {
		h, err := hdr.Decode(encoded)
		if err != nil {
			return err
		}
		f.Spans[i].Merge(h)
	}
	return nil
}
