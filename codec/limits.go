package codec

import "time"

// The limits of protocol v1 (spec 3). Each comment gives the name in the protocol reference, where it has one. Sizes are in
// bytes, characters are Unicode code points.
const (
	ProtocolVersion = 1 // PROTOCOL_VERSION: ready.v

	MaxFrameBytes = 16 << 20 // MAX_FRAME_BYTES: one WebSocket message, all fragments
	MaxHelloBytes = 64 << 10 // the first message, which must be hello
	MaxTextChars  = 12_000   // MAX_TEXT_CHARS: text, caption, transcript
	MaxAudioBytes = 8 << 20  // MAX_AUDIO_BYTES: decoded audio.data

	MaxMediaBytes      = 8 << 20                            // MAX_MEDIA_BYTES: one file, both directions
	MediaChunkBytes    = 3 << 20                            // MEDIA_CHUNK_BYTES: raw bytes of one chunk that is sent
	MinMediaChunkBytes = 4 << 10                            // MIN_MEDIA_CHUNK_BYTES: only what MaxMediaParts comes from
	MaxMediaParts      = MaxMediaBytes / MinMediaChunkBytes // MAX_MEDIA_PARTS: media.parts
	MaxOpenUploads     = 8                                  // multi-part uploads of one device that are not complete
	MaxUploadBytes     = 8 << 20                            // decoded bytes of all open uploads of one device
	UploadIdle         = 120 * time.Second                  // an upload without a new chunk is freed

	DefaultChunkLimit = 3500                   // DEFAULT_CHUNK_LIMIT: characters in one outgoing message frame
	EditInterval      = 400 * time.Millisecond // least time between two edits of one message
	DefaultPromptTTL  = 300 * time.Second      // DEFAULT_PROMPT_TTL: life of a card

	HelloTimeout = 15 * time.Second // from the finished upgrade to hello
	TypingIdle   = 3 * time.Second  // from the last outgoing message to avatar idle

	DedupWindow = 600 * time.Second // how long the id of an accepted message is remembered
	MaxDedupIDs = 4000              // and how many of them for each device

	MaxIDChars       = 128     // id, prompt_id: cut
	MaxDeviceChars   = 120     // strings of hello.device and hello.user: cut
	MaxFilenameChars = 200     // filename: cut
	MaxPingTSBytes   = 4 << 10 // JSON of ping.ts
)

// The kinds of file: a device sends the first four, the gateway all but MediaAudio, which goes out as MediaVoice.
const (
	MediaImage     = "image"
	MediaVideo     = "video"
	MediaDocument  = "document"
	MediaAudio     = "audio"
	MediaVoice     = "voice"
	MediaAnimation = "animation"
)

// The formats of audio.
const (
	FormatWAV = "wav"
	FormatOGG = "ogg"
)

// The kinds of card.
const (
	CardExecApproval = "exec_approval"
	CardSlashConfirm = "slash_confirm"
	CardClarify      = "clarify"
)
