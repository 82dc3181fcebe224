package kafkawire

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"ndrbridge/internal/failure"
)

// fill sets the fields of a kmsg message to non-zero values.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" {
				fill(r, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.String:
		v.SetString("abcdef"[:r.IntN(7)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 1)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(100)))
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(100)))
	}
}

func TestShapesMatchTheLibrary(t *testing.T) {
	for key, api := range apis {
		t.Run(kmsg.NameForKey(key), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				request := kmsg.RequestForKey(key)
				request.SetVersion(rapid.Int16Range(api.oldest, api.newest).Draw(t, "version"))
				if request.IsFlexible() {
					t.Fatalf("version %d has the flexible encoding", request.GetVersion())
				}
				answer := request.ResponseKind()
				fill(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), reflect.ValueOf(answer).Elem())
				answer.SetVersion(request.GetVersion())
				body := answer.AppendTo(nil)

				rest, err := api.answer.skip(body, request.GetVersion())
				if err != nil || len(rest) > 0 {
					t.Fatalf("version %d: %d of %d bytes are left, %v", request.GetVersion(), len(rest), len(body), err)
				}
				decoded, err := decode(request, api.answer, body)
				if err != nil || string(decoded.AppendTo(nil)) != string(body) {
					t.Fatalf("decoded as %v, %v", decoded, err)
				}
				if cut := rapid.IntRange(0, len(body)-1).Draw(t, "cut"); api.answer.check(body[:cut], request.GetVersion()) == nil {
					t.Fatalf("%d of %d bytes are accepted as complete", cut, len(body))
				}
			})
		})
	}
}

func TestImpossibleListIsNotDecoded(t *testing.T) {
	for key, api := range apis {
		t.Run(kmsg.NameForKey(key), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				request := kmsg.RequestForKey(key)
				request.SetVersion(rapid.Int16Range(api.oldest, api.newest).Draw(t, "version"))
				answer := request.ResponseKind()
				fill(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), reflect.ValueOf(answer).Elem())
				answer.SetVersion(request.GetVersion())
				body := append(answer.AppendTo(nil), make([]byte, 200)...)
				at := rapid.IntRange(0, len(body)-4).Draw(t, "at")
				binary.BigEndian.PutUint32(body[at:], rapid.SampledFrom([]uint32{math.MaxInt32, 1 << 31, math.MaxUint32, math.MaxUint32 - 1, 1 << 20}).Draw(t, "length"))
				// The decoded message is not larger than the original.
				if decoded, err := decode(request, api.answer, body); err == nil && len(decoded.AppendTo(nil)) > len(body) {
					t.Fatalf("%d bytes became %d", len(body), len(decoded.AppendTo(nil)))
				}
			})
		})
	}
}

// panicking is a request whose answer cannot be decoded without a panic.
type panicking struct{ kmsg.Request }

func (p panicking) ResponseKind() kmsg.Response { return panickingAnswer{p.Request.ResponseKind()} }

type panickingAnswer struct{ kmsg.Response }

func (panickingAnswer) ReadFrom(body []byte) error {
	_ = body[len(body)]
	return nil
}

func TestAPanicOfADecoderIsAnErrorOfItsConnection(t *testing.T) {
	answer, err := decode(panicking{kmsg.NewPtrMetadataRequest()}, nil, []byte{0})
	if class, _ := failure.ClassOf(err); answer != nil || err == nil || class != failure.Transient {
		t.Fatalf("%v, class %s: %v", answer, class, err)
	}
	if !strings.Contains(err.Error(), "Metadata answer cannot be decoded") || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("error %v", err)
	}
}

// fetched returns the answer to a fetch of one partition with a number of bytes of records.
func fetched(version int16, records int) kmsg.FetchResponse {
	return kmsg.FetchResponse{Version: version, Topics: []kmsg.FetchResponseTopic{{Topic: "ndr.tickets", Partitions: []kmsg.FetchResponseTopicPartition{
		{Partition: 3, AbortedTransactions: make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 2), RecordBatches: bytes.Repeat([]byte{7}, records)},
	}}}}
}

func TestCutFetchAnswer(t *testing.T) {
	api := apis[int16(kmsg.Fetch)]
	decoded := func(version int16, body []byte, unread int) (*kmsg.FetchResponse, error) {
		if err := cutRecords(body, version, unread); err != nil {
			return nil, err
		}
		request := kmsg.NewPtrFetchRequest()
		request.SetVersion(version)
		answer, err := decode(request, api.answer, body)
		if err != nil {
			return nil, err
		}
		return answer.(*kmsg.FetchResponse), nil
	}
	rapid.Check(t, func(t *rapid.T) {
		version, size := rapid.Int16Range(api.oldest, api.newest).Draw(t, "version"), rapid.IntRange(0, 200).Draw(t, "size")
		answer := fetched(version, size)
		body := answer.AppendTo(nil)
		unread := rapid.IntRange(0, len(body)).Draw(t, "unread")
		got, err := decoded(version, body[:len(body)-unread], unread)
		if unread > size {
			if err == nil {
				t.Fatalf("%+v", got)
			}
			return
		}
		if err != nil || !bytes.Equal(got.Topics[0].Partitions[0].RecordBatches, answer.Topics[0].Partitions[0].RecordBatches[:size-unread]) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
	for name, change := range map[string]func(*kmsg.FetchResponse){
		"another topic behind it": func(a *kmsg.FetchResponse) { a.Topics = append(a.Topics, a.Topics[0]) },
		"another partition behind it": func(a *kmsg.FetchResponse) {
			a.Topics[0].Partitions = append(a.Topics[0].Partitions, a.Topics[0].Partitions[0])
		},
		"no topic":     func(a *kmsg.FetchResponse) { a.Topics = nil },
		"no partition": func(a *kmsg.FetchResponse) { a.Topics[0].Partitions = nil },
	} {
		t.Run(name, func(t *testing.T) {
			answer := fetched(api.newest, 100)
			change(&answer)
			if got, err := decoded(api.newest, answer.AppendTo(nil), 50); err == nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func FuzzAnswers(f *testing.F) {
	for key, api := range apis {
		answer := kmsg.RequestForKey(key).ResponseKind()
		fill(rand.New(rand.NewPCG(1, 2)), reflect.ValueOf(answer).Elem())
		answer.SetVersion(api.newest)
		f.Add(key, api.newest, answer.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		api, ok := apis[key]
		if !ok || version < api.oldest || version > api.newest {
			return
		}
		request := kmsg.RequestForKey(key)
		request.SetVersion(version)
		if decoded, err := decode(request, api.answer, body); err == nil && len(decoded.AppendTo(nil)) > len(body) {
			t.Errorf("%d bytes became %d", len(body), len(decoded.AppendTo(nil)))
		}
	})
}

func FuzzGroupMessages(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 1, 'x', 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		if topics, err := Subscription(message); err == nil && 2*len(topics) > len(message) {
			t.Errorf("%d topics in %d bytes", len(topics), len(message))
		}
		if partitions, err := Assignment(message, "x"); err == nil && 4*len(partitions) > len(message) {
			t.Errorf("%d partitions in %d bytes", len(partitions), len(message))
		}
	})
}
