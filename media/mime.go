package media

import (
	"net/http"
	"strings"
)

const octetStream = "application/octet-stream"

// byExtension is a table of our own: the one of package mime depends on the machine.
var byExtension = map[string]string{
	"avif": "image/avif", "bmp": "image/bmp", "gif": "image/gif", "heic": "image/heic", "heif": "image/heif", "ico": "image/x-icon",
	"jpe": "image/jpeg", "jpeg": "image/jpeg", "jpg": "image/jpeg", "jxl": "image/jxl", "png": "image/png", "svg": "image/svg+xml",
	"tif": "image/tiff", "tiff": "image/tiff", "webp": "image/webp",

	"aac": "audio/aac", "aiff": "audio/aiff", "amr": "audio/amr", "flac": "audio/flac", "m4a": "audio/mp4", "mid": "audio/midi",
	"mp3": "audio/mpeg", "oga": "audio/ogg", "ogg": "audio/ogg", "opus": "audio/ogg", "wav": "audio/wav", "weba": "audio/webm",

	"3gp": "video/3gpp", "avi": "video/x-msvideo", "m4v": "video/mp4", "mkv": "video/x-matroska", "mov": "video/quicktime",
	"mp4": "video/mp4", "mpeg": "video/mpeg", "mpg": "video/mpeg", "ogv": "video/ogg", "webm": "video/webm",

	"7z": "application/x-7z-compressed", "apk": "application/vnd.android.package-archive", "bz2": "application/x-bzip2",
	"css": "text/css", "csv": "text/csv", "doc": "application/msword",
	"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"eml":  "message/rfc822", "epub": "application/epub+zip", "gz": "application/gzip", "htm": "text/html", "html": "text/html",
	"ics": "text/calendar", "js": "text/javascript", "json": "application/json", "log": "text/plain", "md": "text/markdown",
	"odp": "application/vnd.oasis.opendocument.presentation", "ods": "application/vnd.oasis.opendocument.spreadsheet",
	"odt": "application/vnd.oasis.opendocument.text", "pdf": "application/pdf", "ppt": "application/vnd.ms-powerpoint",
	"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation", "rar": "application/vnd.rar",
	"rtf": "application/rtf", "tar": "application/x-tar", "tgz": "application/gzip", "txt": "text/plain", "vcf": "text/vcard",
	"xls": "application/vnd.ms-excel", "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"xml": "application/xml", "xz": "application/x-xz", "yaml": "application/yaml", "yml": "application/yaml",
	"zip": "application/zip", "zst": "application/zstd",
}

// GuessMime tells the type of a file by the extension of its name, else by its first bytes (up to 512 are looked at), else says
// application/octet-stream. It is the same on every machine.
func GuessMime(filename string, head []byte) string {
	if dot := strings.LastIndexByte(filename, '.'); dot >= 0 {
		if mime, ok := byExtension[strings.ToLower(filename[dot+1:])]; ok {
			return mime
		}
	}
	if len(head) == 0 {
		return octetStream // no bytes would be text
	}
	return http.DetectContentType(head)
}
