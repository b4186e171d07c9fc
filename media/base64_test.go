package media

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const eight = 8 << 20

// random gives n bytes, for one seed the same.
func random(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	r.Read(b)
	return b
}

// lines breaks text into lines of 76 characters, as mail has it.
func lines(text string) string {
	var b strings.Builder
	for len(text) > 76 {
		b.WriteString(text[:76] + "\r\n")
		text = text[76:]
	}
	return b.String() + text + "\n"
}

func TestDecodeTable(t *testing.T) {
	long := base64.StdEncoding.EncodeToString(random(300_000, 1))
	for _, c := range []struct {
		name, data string
		most       int
		want       error
	}{
		{"nothing", "", 9, ErrEmpty},
		{"white space alone", " \t\n\r\f\v", 9, ErrEmpty},
		{"padded", "AQI=", 9, nil},
		{"twice padded", "AQ==", 9, nil},
		{"padding left out", "AQI", 9, nil},
		{"white space anywhere", "\fA Q\tI\r\n=\v ", 9, nil},
		{"white space between the padding", "AQ= =", 9, nil},
		{"bits that belong to no byte", "AR==", 9, nil},
		{"half the padding", "AQ=", 9, ErrBase64},
		{"padding too many", "AQI==", 9, ErrBase64},
		{"padding for nothing", "AQID=", 9, ErrBase64},
		{"a whole group of padding", "AQID====", 9, ErrBase64},
		{"three of padding", "A===", 9, ErrBase64},
		{"padding alone", "==", 9, ErrBase64},
		{"padding and white space alone", " = ", 9, ErrBase64},
		{"data after padding", "AQ==AQ==", 9, ErrBase64},
		{"data after padding and white space", "AQ== A", 9, ErrBase64},
		{"a character left over", "A", 9, ErrBase64},
		{"a character left over behind a group", "AQIDA", 9, ErrBase64},
		{"the URL alphabet", "__--", 9, ErrBase64},
		{"an asterisk", "AQ*D", 9, ErrBase64},
		{"a zero byte", "AQI\x00", 9, ErrBase64},
		{"a no-break space", "AQI\u00a0", 9, ErrBase64},
		{"just as big as allowed", "AQID", 3, nil},
		{"too big", "AQIDBA==", 3, ErrTooBig},
		{"too big but for its white space", "A  Q   I   D", 3, nil},
		{"too big and wrong", "AQIDBA=A", 3, ErrBase64},
		{"wrong at the end of much", long[:len(long)-4] + "A*==", eight, ErrBase64},
		{"wrong in the second slab", long[:100_000] + "-" + long[100_001:], eight, ErrBase64},
		{"padding in the second slab", long[:100_000] + "====" + long[100_004:], eight, ErrBase64},
	} {
		budget := NewBudget(1 << 20)
		f, err := Decode(c.data, c.most, budget)
		require.ErrorIs(t, err, c.want, c.name)
		if c.want == nil {
			require.NotZero(t, budget.Used(), c.name)
			f.Release()
		}
		require.Zero(t, budget.Used(), c.name)
	}
}

// Sizes around a vector, a slab and the threshold of small pieces, in every way to write them.
func TestDecodeSizes(t *testing.T) {
	sizes := []int{small - 1, small, small + 1, slabFill - 1, slabFill, slabFill + 1, slabFill + small, slabFill + small + 1, 2 * slabFill, 1<<20 + 7, eight}
	for n := 1; n < 100; n++ {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		want := random(n, uint64(n))
		padded := base64.StdEncoding.EncodeToString(want)
		require.Equal(t, padded, string(AppendBase64([]byte("x"), want))[1:])
		for name, text := range map[string]string{
			"padded": padded, "raw": strings.TrimRight(padded, "="), "lines": lines(padded), "front": " " + padded, "end": padded + "\n",
			"raw lines": lines(strings.TrimRight(padded, "=")), "last": padded[:len(padded)-1] + " " + padded[len(padded)-1:],
		} {
			budget := NewBudget(16 << 20)
			f, err := Decode(text, n, budget)
			require.NoError(t, err, "%s %d", name, n)
			require.True(t, bytes.Equal(want, contentOf(f)), "%s %d", name, n)
			held := fileBytes
			for _, p := range f.pieces {
				require.LessOrEqual(t, cap(p.b), slabBytes)
				held += cap(p.b) + overhead
			}
			require.EqualValues(t, held, budget.Used(), "capacity is what counts: %s %d", name, n)
			f.Release()
			require.Zero(t, budget.Used())

			_, err = Decode(text, n-1, budget)
			require.ErrorIs(t, err, ErrTooBig, "%s %d", name, n)
			require.Zero(t, budget.Used())
		}
	}
}

// White space reserves nothing: a byte in a megabyte of it costs a byte.
func TestWhiteSpaceCostsNothing(t *testing.T) {
	budget := NewBudget(2 << 20)
	f, err := Decode("A"+strings.Repeat(" ", 1<<20)+"Q", eight, budget)
	require.NoError(t, err)
	require.EqualValues(t, fileBytes+1+overhead, budget.Used())
	f.Release()
}

func TestDecodeBudget(t *testing.T) {
	text := base64.StdEncoding.EncodeToString(random(slabFill+1, 1))
	budget := NewBudget(fileBytes + slabBytes + 1 + 2*overhead)
	f, err := Decode(text, eight, budget)
	require.NoError(t, err)
	_, err = Decode("AQ==", eight, budget)
	require.ErrorIs(t, err, ErrBudget)
	require.EqualValues(t, fileBytes+slabBytes+1+2*overhead, budget.Used())
	f.Release()
	f, err = Decode("AQ==", eight, budget)
	require.NoError(t, err)
	f.Release()

	require.False(t, NewBudget(0).Take(1))
	f, err = Decode(text, eight, nil)
	require.NoError(t, err, "no budget, no bound")
	f.Release()
}

// FuzzDecode: any text gives what encoding/base64 makes of it once the white space is out, whatever lies around it in memory.
func FuzzDecode(f *testing.F) {
	long := base64.StdEncoding.EncodeToString(random(200, 1))
	for _, s := range []string{"", "AQI=", "A Q=\n=", "AR", "A===", "====", "AQ==AQ", "__--", long, lines(long), long + "=", long[:133] + "\x80" + long[133:]} {
		f.Add(s, uint8(0), uint32(0))
	}
	f.Add("AQID\n", uint8(255), uint32(87_380))
	f.Add("=", uint8(200), uint32(4096))
	f.Fuzz(func(t *testing.T, tail string, repeat uint8, at uint32) {
		text := strings.Repeat("QUJD+/", int(repeat)*100) + tail // long enough to cross chunks and slabs
		if n := uint32(len(text)); n > 0 {
			at %= n
			text = text[at:] + text[:at]
		}
		want, fault := reference(text)
		budget := NewBudget(eight)
		file, err := Decode(text, eight, budget)
		require.ErrorIs(t, err, fault)
		if err == nil {
			require.True(t, bytes.Equal(want, contentOf(file)))
			file.Release()
			if len(want) > 1 {
				_, err = Decode(text, len(want)-1, budget)
				require.ErrorIs(t, err, ErrTooBig)
			}
		}
		require.Zero(t, budget.Used())
		require.Equal(t, base64.StdEncoding.EncodeToString([]byte(text)), string(AppendBase64(nil, []byte(text))))
	})
}

// reference decodes with the standard library.
func reference(text string) ([]byte, error) {
	for _, c := range " \t\n\r\f\v" {
		text = strings.ReplaceAll(text, string(c), "")
	}
	if text == "" {
		return nil, ErrEmpty
	}
	encoding := base64.RawStdEncoding
	if strings.Contains(text, "=") {
		encoding = base64.StdEncoding
	}
	b, err := encoding.DecodeString(text)
	if err != nil {
		return nil, ErrBase64
	}
	return b, nil
}
