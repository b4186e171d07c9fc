package hermes

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/hermes/hermestest"
)

func create(t *testing.T, path, content string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestShare(t *testing.T) {
	dir := t.TempDir()
	root, spoolDir := filepath.Join(dir, "root"), filepath.Join(dir, "root", "spool")
	s, err := openSpool(spoolDir, nil, spoolBounds)
	require.NoError(t, err)
	defer s.close()
	sh := share{roots: []string{root, filepath.Join(dir, "two")}, spool: s, max: 100}
	other := agent.Owner{Device: "tel-2", Entry: defaultEntry}
	create(t, filepath.Join(dir, "secret.txt"), "secret")
	create(t, filepath.Join(dir, "root-beside", "x.txt"), "secret")
	own := create(t, filepath.Join(spoolDir, folder(phone), "a.txt"), "mine")
	foreign := create(t, filepath.Join(spoolDir, folder(other), "a.txt"), "theirs")
	require.NoError(t, os.Symlink("../secret.txt", filepath.Join(root, "out.txt")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "secret.txt"), filepath.Join(root, "abs.txt")))
	require.NoError(t, os.Symlink("spool/"+folder(other), filepath.Join(root, "across")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "etc")))
	good := create(t, filepath.Join(root, "sub", "good.txt"), "good")
	require.NoError(t, os.Symlink("sub/good.txt", filepath.Join(root, "link.txt")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	for path, want := range map[string]error{
		good: nil, own: nil, create(t, filepath.Join(dir, "two", "x.pdf"), "%PDF-"): nil,
		filepath.Join(root, "link.txt"):                    nil,
		root + "/sub/../sub/./good.txt":                    nil,
		create(t, root+"/full", strings.Repeat("x", 100)):  nil,
		create(t, root+"/large", strings.Repeat("x", 101)): errLarge,
		foreign:                                errOutside,
		filepath.Join(root, "across", "a.txt"): errOutside,
		spoolDir:                               errOutside,
		filepath.Join(dir, "secret.txt"):       errOutside,
		filepath.Join(dir, "root-beside", "x.txt"): errOutside,
		root + "/../secret.txt":                    errOutside,
		filepath.Join(root, "out.txt"):             errOutside,
		filepath.Join(root, "abs.txt"):             errOutside,
		root + "/etc/passwd":                       errOutside,
		"/etc/passwd":                              errOutside,
		"/no/such/file":                            errOutside,
		"~/x.txt":                                  errOutside,
		root + "/none.txt":                         errNoFile,
		root + "/sub":                              errNoFile,
		root + "/fifo":                             errNoFile,
		root:                                       errOutside,
		"":                                         errOutside,
		root + "/" + strings.Repeat("x", 300):      errNoFile,
		root + "/a\x00b":                           errNoFile,
	} {
		f, err := sh.open(path, phone)
		require.Equal(t, want, err, path)
		if err == nil {
			require.Equal(t, filepath.Base(path), f.Name)
			require.Len(t, content(t, f), f.Size)
		}
	}
	f, err := sh.open(good, phone)
	require.NoError(t, err)
	require.NoError(t, os.Remove(good))
	require.NoError(t, os.Symlink("../../secret.txt", good), "between the mark and the sending")
	_, err = f.Open()
	require.Equal(t, errNoFile, err)
}

func TestKinds(t *testing.T) {
	png := string(hermestest.Pixel())
	for _, c := range []struct{ name, head, kind, mime string }{
		{"a.png", png, "image", "image/png"},
		{"a.txt", png, "image", "image/png"},
		{"a", "GIF89a", "animation", "image/gif"},
		{"a.png", "no image", "document", "text/plain"},
		{"a.gif", "", "document", "text/plain"},
		{"a.mp3", "ID3\x03", "voice", "audio/mpeg"},
		{"a.mp3", "\xff\xfb\x90", "voice", "audio/mpeg"},
		{"a.ogg", "OggS\x00", "voice", "audio/ogg"},
		{"a", "OggS\x00", "voice", "audio/ogg"},
		{"a.opus", "OggS\x00", "voice", "audio/ogg"},
		{"a.wav", "RIFF\x00\x00\x00\x00WAVE", "voice", "audio/wave"},
		{"a.m4a", "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42", "voice", "audio/mp4"},
		{"a.mp4", "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42", "video", "video/mp4"},
		{"a.MOV", "?", "video", "video/quicktime"},
		{"a.pdf", "%PDF-1.4", "document", "application/pdf"},
		{"a.docx", "PK\x03\x04", "document", known[".docx"].mime},
		{"a.unknown", "\x00\x01", "document", "application/octet-stream"},
	} {
		kind, mime := kindOf(c.name, []byte(c.head))
		require.Equal(t, []string{c.kind, c.mime}, []string{kind, mime}, c.name)
	}
	for want, c := range map[string][2]string{
		".pdf": {"a.PDF", ""}, ".jpg": {"a", "image/jpeg"}, ".bin": {"a.sh", "application/x-sh"}, ".ogg": {"a.b/../c", "audio/ogg; codecs=opus"}, ".jpeg": {"x.jpeg", "image/png"},
	} {
		for range 20 {
			require.Equal(t, want, extension(c[0], c[1]))
		}
	}
}

func TestMarksBecomeFiles(t *testing.T) {
	dir := t.TempDir()
	png := string(hermestest.Pixel())
	create(t, dir+"/a b.png", png)
	create(t, dir+"/c.pdf", "%PDF-")
	for _, c := range []struct {
		steps []hermestest.Step
		text  string
		files string
	}{
		{[]hermestest.Step{step("delta", "Here: MED"), step("delta", `IA:"`+dir+"/a b.p"), step("delta", `ng". Enjoy.`)}, "Here: . Enjoy.", "a b.png"},
		{[]hermestest.Step{step("delta", "Two:\nMEDIA:"+dir+"/c.pdf\nMEDIA:`"+dir+"/a b.png`")}, "Two:\n", "c.pdf a b.png"},
		{[]hermestest.Step{step("complete", "Whole: MEDIA:"+dir+"/c.pdf")}, "Whole:", "c.pdf"},
		{[]hermestest.Step{step("complete", "MEDIA:"+dir+"/c.pdf")}, "", "c.pdf"},
		{[]hermestest.Step{step("delta", "MEDIA:"+dir+"/c.pdf"), {Do: "tool", Tool: "x"}, step("delta", "Done. MEDIA:"+dir+"/c.pdf"), step("complete", "Done. MEDIA:"+dir+"/c.pdf")}, "Done. ", "c.pdf"},
		{[]hermestest.Step{step("delta", "See "), step("cut", ""), step("delta", "it: MEDIA:"+dir+"/c.pdf")}, "See it:", "c.pdf"},
		{[]hermestest.Step{step("delta", "No: MEDIA:/etc/passwd MEDIA:/etc/hosts")}, "No:  \nA file of this answer is not sent: it lies where the gateway may not read.", ""},
		{[]hermestest.Step{step("complete", "No: MEDIA:"+dir+"/none MEDIA:/x")}, "No:\nA file of this answer is not sent: there is no such file.\nA file of this answer is not sent: it lies where the gateway may not read.", ""},
		{[]hermestest.Step{step("complete", "A dot: ![dot]({png}).")}, "A dot: .", "image.png"},
		{[]hermestest.Step{step("delta", "A dot: ![dot]({"), step("delta", "png}).")}, "A dot: ![dot]({png}).", ""},
		{[]hermestest.Step{step("delta", "A dot: ![d"), step("delta", "ot]({png}).")}, "A dot: .", "image.png"},
		{[]hermestest.Step{step("complete", "![dot](data:image/png;base64,!!!) ![x](data:image/svg+xml;base64,PHN2Zz4=)")}, "A file of this answer is not sent: it is no image.", ""},
	} {
		play(t, hermestest.Config{Rules: rule(c.steps...)}, Config{MediaRoots: []string{dir}}, func(s *stage) {
			h := s.ask(turn("m-1", "go"))
			require.NoError(s, h.err)
			require.Equal(s, c.text, h.text())
			var names []string
			for _, f := range h.files() {
				names = append(names, f.Name)
				content(s.T, f)
			}
			require.Equal(s, c.files, strings.Join(names, " "))
			require.NotContains(s, s.log.String(), "etc")
		})
	}
}

func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for i := range maxFiles + 5 {
		b.WriteString("MEDIA:" + create(t, filepath.Join(dir, strings.Repeat("x", i+1)), "x") + " ")
	}
	play(t, hermestest.Config{Rules: rule(step("complete", b.String()))}, Config{MediaRoots: []string{dir}}, func(s *stage) {
		h := s.ask(turn("m-1", "go"))
		require.Len(s, h.files(), maxFiles)
		require.Equal(s, "A file of this answer is not sent: there are too many.", h.reply)
	})
	_, err := inlineImage("data:image/png;base64,"+base64.StdEncoding.EncodeToString(hermestest.Pixel()), len(hermestest.Pixel())-1)
	require.Equal(t, errLarge, err)
	_, err = inlineImage("data:image/png;base64,"+base64.StdEncoding.EncodeToString(hermestest.Pixel()), len(hermestest.Pixel()))
	require.NoError(t, err)
}

// TestFileComesBeforeTheQuestionAboutIt: what the agent made is there when it asks whether that is right.
func TestFileComesBeforeTheQuestionAboutIt(t *testing.T) {
	path := create(t, t.TempDir()+"/a.pdf", "%PDF-")
	play(t, hermestest.Config{Rules: rule(step("delta", "See MEDIA:"+path+"\n"), dangerous("print"))}, Config{MediaRoots: []string{filepath.Dir(path)}}, func(s *stage) {
		h, done := s.begin(s.Context(), turn("m-1", "go"))
		require.NoError(s, press(<-h.shown, "once"))
		<-done
		var order []agent.Kind
		for _, e := range h.events {
			order = append(order, e.Kind)
		}
		require.Equal(s, []agent.Kind{agent.Delta, agent.SendFile, agent.ShowCard, agent.Delta}, order)
	})
}
