package hermestest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Image is an image that a message brought.
type Image struct {
	URL    string // http or https; empty when the image itself came
	Type   string // image/png
	Size   int    // bytes of the content; -1: it is no base64
	SHA256 string // hexadecimal, of the content
}

// parts reads the content of a message. Strict: code says what is wrong with it; else what is not known is passed over.
func parts(content any, strict bool) (text string, images []Image, code string) {
	if s, ok := content.(string); ok {
		return clip(s), nil, ""
	}
	list, _ := content.([]any)
	var texts []string
	for i, raw := range list {
		if i == maxPart {
			break
		}
		part, _ := raw.(map[string]any)
		switch kind, _ := part["type"].(string); kind {
		case "text", "input_text", "output_text":
			t, _ := part["text"].(string)
			texts = append(texts, clip(t))
		case "image_url", "input_image":
			img, bad := image(part["image_url"])
			if bad != "" && strict {
				return "", nil, bad
			}
			images = append(images, img)
		default:
			if strict {
				return "", nil, "unsupported_content_type"
			}
		}
	}
	return strings.Join(texts, "\n"), images, ""
}

// clip cuts a text off as the agent does: without a word.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := 0
	for i := range s {
		if n++; n > maxText {
			return s[:i]
		}
	}
	return s
}

func image(v any) (img Image, code string) {
	if m, ok := v.(map[string]any); ok {
		v = m["url"]
	}
	url, _ := v.(string)
	if url == "" {
		return img, "invalid_image_url"
	}
	if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
		return Image{URL: url}, ""
	}
	head, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ",")
	if !strings.HasPrefix(url, "data:") || !ok {
		return img, "invalid_image_url"
	}
	img.Type = strings.TrimSuffix(head, ";base64")
	if !strings.HasPrefix(img.Type, "image/") {
		return img, "unsupported_content_type"
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		img.Size = -1
		return img, ""
	}
	sum := sha256.Sum256(b)
	img.Size, img.SHA256 = len(b), hex.EncodeToString(sum[:])
	return img, ""
}
