package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"mobilegate/agent"
)

// disk keeps conversations in a file. A turn whose answer is out is on the disk itself, with all others of the same moment
// in one write.
type disk struct {
	bounds bounds
	limit  int
	db     *bbolt.DB
}

// The buckets of the file. All of them are keyed and sorted so that nothing is ever looked for.
var (
	byOwner = []byte("conversations") // a hash of the owner: the number of the record's last change, and the record
	byAge   = []byte("order")         // that number: the hash
	sums    = []byte("sums")          // total: bytes of all records, with recordSize for each
	total   = []byte("bytes")
)

// record is a conversation as it lies in the file.
type record struct {
	Version int        `json:"v"`
	Turns   []exchange `json:"turns"`
}

const (
	recordVersion = 1
	ageSize       = 8
	recordSize    = 200 // what a record costs beside itself: its keys, its entry in the order, the pages' share
	lockWait      = time.Second
)

// The faults of a file at the start.
var (
	errLocked  = errors.New("it is in use by another process")
	errDamaged = errors.New("it is damaged, or no history; move it away to begin with a new one")
)

func openDisk(path string, b bounds, limit int) (*disk, error) {
	db, err := openSound(path)
	if err != nil {
		return nil, fmt.Errorf("openai: the history in %s cannot be opened: %w", path, err)
	}
	return &disk{b, limit, db}, nil
}

// openSound opens a file and looks at all its keys: a damaged one is found now, not in the middle of a turn.
func openSound(path string) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // the file is mapped into memory
	defer func() {
		if recover() != nil {
			db, err = nil, errDamaged // not closed: nothing in it can be trusted to come back
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, errLocked
	case errors.As(err, new(syscall.Errno)):
		return nil, err
	case err != nil:
		return nil, errDamaged
	}
	if err = db.Update(sound); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// sound makes the buckets of a new file, and looks at those of an old one.
func sound(tx *bbolt.Tx) error {
	info, err := os.Stat(tx.DB().Path())
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return errDamaged
	}
	var keys [3]int
	for i, name := range [][]byte{byOwner, byAge, sums} {
		b, err := tx.CreateBucketIfNotExists(name)
		if err != nil {
			return errDamaged
		}
		b.ForEach(func([]byte, []byte) error { keys[i]++; return nil })
	}
	if keys[0] != keys[1] {
		return errDamaged
	}
	return nil
}

// keyOf hashes an owner with the lengths of its parts, so that no two owners share a key.
func keyOf(o agent.Owner) []byte {
	b := binary.AppendUvarint(nil, uint64(len(o.Device)))
	b = append(b, o.Device...)
	b = binary.AppendUvarint(b, uint64(len(o.Entry)))
	sum := sha256.Sum256(append(b, o.Entry...))
	return sum[:]
}

// read returns what a value of the file holds; a record that this version cannot read is as good as none.
func read(value []byte) (age []byte, turns []exchange) {
	if len(value) < ageSize {
		return nil, nil
	}
	var r record
	if json.Unmarshal(value[ageSize:], &r) != nil || r.Version != recordVersion {
		r.Turns = nil
	}
	return value[:ageSize], r.Turns
}

func (d *disk) recall(o agent.Owner) (turns []exchange, err error) {
	err = d.db.View(func(tx *bbolt.Tx) error {
		_, turns = read(tx.Bucket(byOwner).Get(keyOf(o)))
		return nil
	})
	return turns, err
}

func (d *disk) add(o agent.Owner, x exchange) error {
	key := keyOf(o)
	return d.db.Batch(func(tx *bbolt.Tx) error {
		return change(tx, func(f *file) error {
			past, err := f.take(key)
			if err != nil {
				return err
			}
			return errors.Join(f.put(key, d.bounds.append(past, x)), f.prune(d.limit))
		})
	})
}

func (d *disk) forget(o agent.Owner) error {
	key := keyOf(o)
	return d.db.Batch(func(tx *bbolt.Tx) error {
		return change(tx, func(f *file) error {
			_, err := f.take(key)
			return err
		})
	})
}

func (d *disk) close() error { return d.db.Close() }

// file is the history within a transaction that changes it.
type file struct {
	records, order *bbolt.Bucket
	used           int
}

// change does with the file what do says, and keeps account of its size.
func change(tx *bbolt.Tx, do func(*file) error) error {
	f := file{records: tx.Bucket(byOwner), order: tx.Bucket(byAge)}
	sum := tx.Bucket(sums)
	if b := sum.Get(total); len(b) == 8 {
		f.used = int(binary.BigEndian.Uint64(b))
	}
	if err := do(&f); err != nil {
		return err
	}
	return sum.Put(total, binary.BigEndian.AppendUint64(nil, uint64(max(f.used, 0))))
}

// take takes a record out, if it is there.
func (f *file) take(key []byte) ([]exchange, error) {
	value := f.records.Get(key)
	if value == nil {
		return nil, nil
	}
	age, turns := read(value)
	f.used -= len(value) + recordSize
	return turns, errors.Join(f.order.Delete(bytes.Clone(age)), f.records.Delete(key))
}

// put puts a record in, as the one that was changed last.
func (f *file) put(key []byte, turns []exchange) error {
	n, err := f.order.NextSequence()
	if err != nil {
		return err
	}
	data, err := json.Marshal(record{recordVersion, turns})
	if err != nil {
		return err
	}
	age := binary.BigEndian.AppendUint64(nil, n)
	value := append(age, data...)
	f.used += len(value) + recordSize
	return errors.Join(f.records.Put(key, value), f.order.Put(age, key))
}

// prune takes the oldest records out until the others are within limit, or one is left.
func (f *file) prune(limit int) error {
	for f.used > limit {
		age, key := f.order.Cursor().First()
		if last, _ := f.order.Cursor().Last(); bytes.Equal(age, last) {
			return nil
		}
		age, key = bytes.Clone(age), bytes.Clone(key)
		if _, err := f.take(key); err != nil {
			return err
		}
		if err := f.order.Delete(age); err != nil { // done already, unless the file is not as it should be
			return err
		}
	}
	return nil
}
