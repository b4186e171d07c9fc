// Package transcripts holds the golden transcripts of the protocol as files, for programs that play them.
package transcripts

import "embed"

// Files are the transcripts: package transcript reads them.
//
//go:embed *.txt
var Files embed.FS
