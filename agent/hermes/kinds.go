package hermes

import (
	"net/http"
	"path"
	"strings"
)

// known are the files that the agent and a device exchange, by the extension of their names.
var known = map[string]struct{ mime, kind string }{
	".png": {"image/png", "image"}, ".jpg": {"image/jpeg", "image"}, ".jpeg": {"image/jpeg", "image"}, ".webp": {"image/webp", "image"},
	".bmp": {"image/bmp", "image"}, ".tif": {"image/tiff", "image"}, ".tiff": {"image/tiff", "image"}, ".heic": {"image/heic", "image"},
	".gif": {"image/gif", "animation"},
	".mp3": {"audio/mpeg", "voice"}, ".ogg": {"audio/ogg", "voice"}, ".opus": {"audio/ogg", "voice"}, ".wav": {"audio/wav", "voice"},
	".m4a": {"audio/mp4", "voice"}, ".aac": {"audio/aac", "voice"}, ".flac": {"audio/flac", "voice"}, ".amr": {"audio/amr", "voice"},
	".mp4": {"video/mp4", "video"}, ".m4v": {"video/mp4", "video"}, ".mov": {"video/quicktime", "video"}, ".webm": {"video/webm", "video"},
	".mkv": {"video/x-matroska", "video"}, ".avi": {"video/x-msvideo", "video"}, ".3gp": {"video/3gpp", "video"},
	".pdf": {"application/pdf", "document"}, ".txt": {"text/plain", "document"}, ".md": {"text/markdown", "document"},
	".csv": {"text/csv", "document"}, ".tsv": {"text/tab-separated-values", "document"}, ".json": {"application/json", "document"},
	".xml": {"application/xml", "document"}, ".yaml": {"application/yaml", "document"}, ".yml": {"application/yaml", "document"},
	".log": {"text/plain", "document"}, ".rtf": {"application/rtf", "document"}, ".epub": {"application/epub+zip", "document"},
	".html": {"text/html", "document"}, ".ics": {"text/calendar", "document"}, ".vcf": {"text/vcard", "document"},
	".doc": {"application/msword", "document"}, ".xls": {"application/vnd.ms-excel", "document"}, ".ppt": {"application/vnd.ms-powerpoint", "document"},
	".docx": {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "document"},
	".xlsx": {"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "document"},
	".pptx": {"application/vnd.openxmlformats-officedocument.presentationml.presentation", "document"},
	".odt":  {"application/vnd.oasis.opendocument.text", "document"}, ".ods": {"application/vnd.oasis.opendocument.spreadsheet", "document"},
	".zip": {"application/zip", "document"}, ".gz": {"application/gzip", "document"}, ".tar": {"application/x-tar", "document"}, ".7z": {"application/x-7z-compressed", "document"},
}

// preferred are the extensions of MIME types that several have.
var preferred = map[string]string{"image/jpeg": ".jpg", "audio/ogg": ".ogg", "video/mp4": ".mp4", "text/plain": ".txt", "image/tiff": ".tif", "application/yaml": ".yaml"}

// extension is what the name of a spooled file ends in: the one of its own name if that is a known one, else that of its
// MIME type, else none that could mean anything.
func extension(name, mime string) string {
	ext := strings.ToLower(path.Ext(name))
	if _, ok := known[ext]; ok {
		return ext
	}
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	if ext, ok := preferred[mime]; ok {
		return ext
	}
	for ext, k := range known {
		if k.mime == mime {
			return ext
		}
	}
	return ".bin"
}

// kindOf says what a file for a device is: by its content, where that is plain, else by its name.
func kindOf(name string, head []byte) (kind, mime string) {
	mime, _, _ = strings.Cut(http.DetectContentType(head), ";")
	named := known[strings.ToLower(path.Ext(name))]
	family, _, _ := strings.Cut(mime, "/")
	switch {
	case mime == "image/gif":
		return "animation", mime
	case family == "image":
		return "image", mime
	case mime == "application/ogg" && named.kind == "":
		return "voice", "audio/ogg"
	case family == "audio" && named.kind != "video":
		return "voice", mime
	case family == "video" && named.kind != "voice":
		return "video", mime
	case named.kind == "image" || named.kind == "animation": // it is none that could be shown
		return "document", mime
	case named.kind != "":
		return named.kind, named.mime
	}
	return "document", mime
}
