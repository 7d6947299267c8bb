package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	magic           = "TUTTIm" // six bytes: a member stream
	magicCall       = "TUTTIc" // a call (call.go)
	protocolVersion = 2
	nonceBytes      = 32
	macBytes        = sha256.Size
	clusterBytesMax = 255
	prefixBytes     = len(magic) + 2 + 2                     // magic, version, length of the rest
	helloBytesMax   = 4 + 4 + nonceBytes + clusterBytesMax   // from, to, nonce, cluster
	preauthBytesMax = prefixBytes + helloBytesMax + macBytes // what an acceptor reads before it trusts
	_               = uint(4096 - preauthBytesMax)           // T3
	labelDialer     = "tutti member stream 1 dialer\x00"     // what a MAC is for, so that one side's
	labelAcceptor   = "tutti member stream 1 acceptor\x00"   // can never be used as the other's
)

// refusal is why an acceptor does not talk to a dialer. The numbers are on the wire.
type refusal byte

const (
	accepted           refusal = 0
	refusedVersion     refusal = 1
	refusedCluster     refusal = 2
	refusedMember      refusal = 3
	refusedSecret      refusal = 4
	refusedCertificate refusal = 5
)

var refusalTexts = map[refusal]string{
	refusedVersion:     "wrong protocol version: run the same release on all members",
	refusedCluster:     "wrong cluster: check the cluster id and the address",
	refusedMember:      "unknown member: check the member ids and addresses on both sides, and whether it was removed",
	refusedSecret:      "wrong secret: all members need the same cluster secret",
	refusedCertificate: "wrong certificate: its name is not that of the member",

	refusedAuthority: "wrong certificate: no authority that the other side knows has signed it",
	refusedExpired:   "wrong certificate: it has expired, or is not valid yet",
	refusedUnfit:     "wrong certificate: it cannot be used between members",
	refusedClear:     "no TLS: the other side has member_tls, and this one needs it, too",
}

func (r refusal) Error() string {
	if text, ok := refusalTexts[r]; ok {
		return text
	}
	return fmt.Sprintf("unknown reason %d", byte(r))
}

// errGarbage is what an acceptor sees when something else than Tutti connects.
var errGarbage = errors.New("this is not a Tutti member stream")

// errImpostor is what a dialer sees when the acceptor cannot prove itself.
var errImpostor = errors.New("the other side does not know the cluster secret: check the address and the secret")

// hello is the dialer's first message.
type hello struct {
	from, to uint32
	nonce    [nonceBytes]byte
	cluster  string
	call     bool // instead of a member stream
}

func (h hello) append(dst []byte) []byte {
	if h.call {
		dst = append(dst, magicCall...)
	} else {
		dst = append(dst, magic...)
	}
	dst = binary.LittleEndian.AppendUint16(dst, protocolVersion)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(4+4+nonceBytes+len(h.cluster)))
	dst = binary.LittleEndian.AppendUint32(dst, h.from)
	dst = binary.LittleEndian.AppendUint32(dst, h.to)
	dst = append(dst, h.nonce[:]...)
	return append(dst, h.cluster...)
}

// readHello reads and returns the first message, also as the bytes it came in. It returns
// errGarbage or refusedVersion without reading further than it must.
func readHello(r io.Reader) (hello, []byte, error) {
	raw := make([]byte, prefixBytes, prefixBytes+helloBytesMax)
	if _, err := io.ReadFull(r, raw); err != nil {
		return hello{}, nil, fmt.Errorf("%w: %w", errGarbage, err)
	}
	if raw[0] == recordHandshake && raw[1] == recordVersion {
		return hello{}, nil, errSpeaksTLS
	}
	call := string(raw[:len(magic)]) == magicCall
	if !call && string(raw[:len(magic)]) != magic {
		return hello{}, nil, errGarbage
	}
	if binary.LittleEndian.Uint16(raw[len(magic):]) != protocolVersion {
		return hello{}, nil, refusedVersion
	}
	length := int(binary.LittleEndian.Uint16(raw[len(magic)+2:]))
	if length < 4+4+nonceBytes || length > helloBytesMax {
		return hello{}, nil, errGarbage
	}
	raw = raw[:prefixBytes+length]
	if _, err := io.ReadFull(r, raw[prefixBytes:]); err != nil {
		return hello{}, nil, fmt.Errorf("%w: %w", errGarbage, err)
	}
	b := raw[prefixBytes:]
	h := hello{from: binary.LittleEndian.Uint32(b), to: binary.LittleEndian.Uint32(b[4:]),
		cluster: string(b[8+nonceBytes:]), call: call}
	copy(h.nonce[:], b[8:])
	return h, raw, nil
}

// prove returns the MAC for one direction. first is the dialer's whole first message: its
// length is inside, so first and nonce cannot be split otherwise.
func prove(secret []byte, label string, first, nonce []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(label))
	m.Write(first)
	m.Write(nonce)
	return m.Sum(nil)
}

// writeVerdict sends an answer: accepted with proof, or a refusal with its text.
func writeVerdict(w io.Writer, r refusal, proof []byte) error {
	body := proof
	if r != accepted {
		body = []byte(r.Error())
	}
	_, err := w.Write(append([]byte{byte(r), byte(len(body))}, body...))
	return err
}

// readVerdict returns what was sent with an acceptance, which must be want bytes, or the refusal.
func readVerdict(r io.Reader, want int) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, head[1])
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	if refusal(head[0]) != accepted {
		return nil, refusal(head[0])
	}
	if len(body) != want {
		return nil, errGarbage
	}
	return body, nil
}

// dialHandshake is the dialer's side, from h.from to h.to. A refusal is the error.
func dialHandshake(rw io.ReadWriter, h hello, secret []byte) error {
	if _, err := rand.Read(h.nonce[:]); err != nil {
		return err
	}
	first := h.append(nil)
	if _, err := rw.Write(first); err != nil {
		return err
	}
	nonce, err := readVerdict(rw, nonceBytes)
	if err != nil {
		return err
	}
	if _, err := rw.Write(prove(secret, labelDialer, first, nonce)); err != nil {
		return err
	}
	proof, err := readVerdict(rw, macBytes)
	if err != nil {
		return err
	}
	if !hmac.Equal(proof, prove(secret, labelAcceptor, first, nonce)) {
		return errImpostor
	}
	return nil
}

// acceptHandshake is the acceptor's side. Any of the secrets will do. permit judges what the dialer claims to be; a
// refusal in the chain of its error is sent. The member of the returned message is authenticated when the error is nil.
func acceptHandshake(rw io.ReadWriter, secrets [][]byte, permit func(hello) error) (hello, error) {
	h, first, err := readHello(rw)
	if err == nil {
		err = permit(h)
	}
	if err != nil {
		return hello{}, refuse(rw, err)
	}
	var nonce [nonceBytes]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return hello{}, err
	}
	if err := writeVerdict(rw, accepted, nonce[:]); err != nil {
		return hello{}, err
	}
	var proof [macBytes]byte
	if _, err := io.ReadFull(rw, proof[:]); err != nil {
		return hello{}, fmt.Errorf("the handshake was not finished: %w", err)
	}
	for _, secret := range secrets {
		if hmac.Equal(proof[:], prove(secret, labelDialer, first, nonce[:])) {
			return h, writeVerdict(rw, accepted, prove(secret, labelAcceptor, first, nonce[:]))
		}
	}
	return hello{}, refuse(rw, fmt.Errorf("member %d: %w", h.from, refusedSecret))
}

// refuse tells the dialer when err is a refusal; garbage gets no answer.
func refuse(w io.Writer, err error) error {
	var r refusal
	if errors.As(err, &r) {
		// The connection is closed either way; the reason is what matters.
		_ = writeVerdict(w, r, nil)
	}
	return err
}
