// SPDX-License-Identifier: Apache-2.0
#include "common/text/document_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/base/descriptor.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// With a checksum, as the zstd program writes.
std::string Zstd(const std::string& text) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

// One raw block after a header that asks for a window of 2^window_log bytes, as `zstd --long=N`
// writes from a pipe.
std::string ZstdWithWindow(const std::string& text, int window_log) {
  std::string frame("\x28\xb5\x2f\xfd\0", 5);
  frame.push_back(static_cast<char>((window_log - 10) << 3));
  const size_t block = text.size() << 3 | 1;
  for (int shift = 0; shift < 24; shift += 8) frame.push_back(static_cast<char>(block >> shift));
  return frame + text;
}

std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string in = text, out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Documents : public ::testing::Test {
 protected:
  // All documents, or the first error.
  absl::StatusOr<std::vector<std::string>> All(const std::string& name, const std::string& content,
                                               DocumentOptions options = {}) {
    ATOLL_ASSIGN_OR_RETURN(const auto reader, OpenDocuments(*files_, dir_.Write(name, content), options));
    std::vector<std::string> out;
    std::string text;
    for (;;) {
      ATOLL_ASSIGN_OR_RETURN(const bool more, reader->Next(text));
      if (!more) {
        if (!options.on_bad) {
          EXPECT_EQ(reader->position_bytes(), reader->file_bytes());
        }
        repaired_ = reader->repaired_documents();
        return out;
      }
      out.push_back(text);
    }
  }
  std::string Error(const std::string& name, const std::string& content, DocumentOptions options = {}) {
    return std::string(All(name, content, options).status().message());
  }
  // The skipped and the remaining documents.
  std::vector<std::string> Skip(const std::string& name, const std::string& content,
                                std::vector<std::string>& documents, DocumentOptions options = {}) {
    std::vector<std::string> bad;
    options.on_bad = [&bad](const absl::Status& why) { bad.emplace_back(why.message()); };
    auto all = All(name, content, options);
    EXPECT_TRUE(all.ok()) << all.status();
    documents = std::move(all).value_or(std::vector<std::string>());
    return bad;
  }
  TempDir dir_;
  uint64_t repaired_ = 0;
  std::unique_ptr<Files> files_ = MakePosixFiles();
};

TEST_F(Documents, JsonLines) {
  EXPECT_THAT(
      *All("a.jsonl",
           "{\"text\": \"one\"}\n\n{\"id\": 3, \"text\": \"two\\n\\u00e4\"}\r\n{\"text\":\"\"}\n{\"text\":\"last\"}"),
      ElementsAre("one", "two\n\xc3\xa4", "last"));
  EXPECT_THAT(*All("b.jsonl", "{\"body\": \"x\"}", {.json_field = "body"}), ElementsAre("x"));
  EXPECT_THAT(*All("c.jsonl", ""), ElementsAre());
}

TEST_F(Documents, JsonFaultsNameTheLine) {
  const std::string good = "{\"text\": \"one\"}\n";
  EXPECT_THAT(Error("a.jsonl", good + "\n{\"text\": }\n"),
              HasSubstr("a.jsonl, line 3: is not valid JSON at column 10: unexpected"));
  EXPECT_THAT(Error("a.jsonl", good + std::string(1 << 20, '[')),
              HasSubstr("a.jsonl, line 2: is nested deeper than 512 levels at column 513"));
  EXPECT_THAT(Error("a.jsonl", good + "[1]"), HasSubstr("line 2: is not a JSON object"));
  EXPECT_THAT(Error("a.jsonl", good + "{\"txt\": \"a\"}"),
              HasSubstr("line 2: has no field \"text\"; it has \"txt\". Name the field"));
  EXPECT_THAT(Error("a.jsonl", good + "{\"text\": 5}"), HasSubstr("line 2: field \"text\" is not a string"));
  EXPECT_THAT(Error("a.jsonl", good + "{\"text\": \"a\", \"text\": \"b\"}"),
              HasSubstr("line 2: has field \"text\" 2 times"));
  EXPECT_EQ(Error("a.jsonl", good + "{\"text\": \"a\", \"meta\": {\"text\": \"b\"}}"), "");
  EXPECT_THAT(Error("a.jsonl", good + "{\"text\": \"a\xff\"}"), HasSubstr("line 2: byte 12 is not valid UTF-8"));
  EXPECT_THAT(Error("a.jsonl", good + "{\"text\": \"a\tb\"}"),
              HasSubstr("at column 12: invalid string: control character"));
  EXPECT_THAT(Error("a.jsonl", good + std::string("{\"text\": \"a\"}\0", 14)), HasSubstr("at column 14: a zero byte"));
}

TEST_F(Documents, PythonsJsonExtensionsAreAccepted) {
  for (const char* other : {"NaN", "Infinity", "-Infinity", "1e400", "-1E+999", "[NaN, {\"b\": NaN}]", "\"\\ud83d\""}) {
    const std::string line = absl::StrCat("{\"score\": ", other, ", \"text\": \"good\"}");
    const auto all = All("a.jsonl", line);
    ASSERT_TRUE(all.ok()) << other << all.status();
    EXPECT_THAT(*all, ElementsAre("good"));
    EXPECT_EQ(repaired_, 0u) << other;
  }
  EXPECT_THAT(*All("b.jsonl", "{\"n\": " + std::string(500, '9') + ", \"text\": \"good\"}"), ElementsAre("good"));
  EXPECT_THAT(*All("c.jsonl", "{\"text\": \"half \\ud83d\"}\n{\"text\": \"\\ude00\"}\n{\"text\": \"\\ud83d\\ude00\"}"),
              ElementsAre("half \xef\xbf\xbd", "\xef\xbf\xbd", "\xf0\x9f\x98\x80"));
  EXPECT_EQ(repaired_, 2u);
  for (const char* text : {"NaN", "1e400"}) {
    EXPECT_THAT(Error("d.jsonl", absl::StrCat("{\"text\": ", text, "}")), HasSubstr("field \"text\" is not a string"));
  }
}

TEST_F(Documents, NestedFields) {
  const DocumentOptions nested{.json_field = "meta.text"};
  EXPECT_THAT(
      *All("a.jsonl", "{\"meta\": {\"text\": \"inner\"}}\n{\"meta.text\": \"literal\", \"meta\": {\"text\": \"x\"}}",
           nested),
      ElementsAre("inner", "literal"));
  EXPECT_THAT(Error("b.jsonl", "{\"meta\": {\"txt\": 1}, \"id\": 2}", nested),
              HasSubstr("has no field \"meta.text\"; it has \"id\", \"meta\""));
  EXPECT_THAT(Error("c.jsonl", "{\"meta\": \"text\"}", nested), HasSubstr("has no field \"meta.text\""));
  EXPECT_THAT(Error("d.jsonl", "{\"meta\": {\"text\": \"a\", \"text\": \"b\"}}", nested), HasSubstr("2 times"));
  EXPECT_THAT(*All("e.jsonl", "{\"x\": {\"text\": \"y\"}, \"meta\": {\"text\": \"a\", \"in\": {\"text\": 1}}}", nested),
              ElementsAre("a"));
}

TEST_F(Documents, BadOnesCanBeLeftOut) {
  const std::string good = "{\"text\": \"good\"}\n";
  std::vector<std::string> kept;
  std::vector<std::string> bad =
      Skip("a.jsonl", good + "{oops\n{\"text\": \"\xff\"}\n{\"text\": null}\n\n" + good, kept);
  EXPECT_THAT(kept, ElementsAre("good", "good"));
  EXPECT_THAT(bad, ElementsAre(HasSubstr("line 2: is not valid JSON at column 2"), HasSubstr("line 3: byte 11 is not"),
                               HasSubstr("line 4: field \"text\" is not a string")));
  bad = Skip("b.jsonl", good + "{\"text\": \"" + std::string(2 * kDocumentBytes, 'x') + "\"}\n" + good, kept);
  EXPECT_THAT(kept, ElementsAre("good", "good"));
  EXPECT_THAT(bad, ElementsAre(HasSubstr("begins in line 2 has more than the")));
  const std::string packed = Gzip(good + good);
  bad = Skip("c.jsonl.gz", packed + packed.substr(0, packed.size() - 9), kept);
  EXPECT_GE(kept.size(), 2u) << "what is before the damage";
  EXPECT_THAT(bad, ElementsAre(HasSubstr("c.jsonl.gz ends in the middle of its gzip data")));
  bad = Skip("d.txt", "one\n\xff\ntwo\n", kept, {.text_split = TextSplit::kLines});
  EXPECT_THAT(kept, ElementsAre("one", "two"));
  EXPECT_THAT(bad, ElementsAre(HasSubstr("line 2: byte 1 is not valid UTF-8")));
}

// Its documents may be sound, so that none is left out silently.
TEST_F(Documents, AFileOfAnUnsupportedKindIsRefusedAlsoWhenBadOnesAreLeftOut) {
  const std::string line = "{\"text\": \"a\"}\n";
  const std::string with_dictionary = std::string("\x28\xb5\x2f\xfd\x01\x58\x07", 7) + Zstd(line).substr(6);
  const std::string xz("\xfd\x37zXZ\0rest", 10), utf16("\xff\xfe{\0\n\0", 6);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.jsonl.zst", ZstdWithWindow(line, 28)},
      {"b.jsonl.zst", Zstd(line) + ZstdWithWindow(line, 28)},
      {"c.jsonl.zst", with_dictionary},
      {"d.jsonl.zst", Zstd(line) + with_dictionary},
      {"e.jsonl.xz", xz},
      {"f.jsonl", xz},
      {"g.jsonl.bz2", "BZh91AY&SYrest"},
      {"h.jsonl.lz4", "\x04\x22\x4d\x18rest"},
      {"i.jsonl", "PK\x03\x04rest"},
      {"j.jsonl.gz", line},
      {"k.jsonl.zst", line},
      {"l.jsonl.gz", Gzip(line) + Zstd(line)},
      {"m.jsonl.zst", Zstd(line) + Gzip(line)},
      {"n.jsonl.zst", Zstd(line) + xz},
      {"o.jsonl", utf16},
      {"p.txt", "\xfe\xff" + utf16.substr(3)},
      {"q.jsonl.gz", Gzip(utf16)},
  };
  for (const auto& [name, content] : files) {
    std::vector<std::string> bad;
    DocumentOptions options;
    EXPECT_EQ(All(name, content, options).status().code(), absl::StatusCode::kUnimplemented) << name;
    options.on_bad = [&bad](const absl::Status& why) { bad.emplace_back(why.message()); };
    const absl::Status refused = All(name, content, options).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << name << ": " << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(name));
    EXPECT_THAT(bad, ElementsAre()) << name;
  }
}

TEST_F(Documents, ByteOrderMarksAndLineEnds) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_THAT(*All("a.txt", mark + "text"), ElementsAre("text"));
  EXPECT_THAT(*All("b.txt", mark), ElementsAre());
  EXPECT_THAT(*All("c.jsonl", mark + "{\"text\": \"a\"}\r\n\r\n{\"text\": \"b\"}\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(*All("d.txt.gz", Gzip(mark + "text")), ElementsAre("text"));
  EXPECT_THAT(Error("e.jsonl", std::string("\xff\xfe{\0", 4)), HasSubstr("iconv -f UTF-16 -t UTF-8"));
}

TEST_F(Documents, PipesAreReadToTheirEnd) {
  const std::string path = dir_ / "p.jsonl";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto reader = OpenDocuments(*files_, path, {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->file_bytes(), std::nullopt);
  EXPECT_TRUE((*reader)->Probe().ok()) << "does not wait";
  Descriptor writer(::open(path.c_str(), O_WRONLY));
  const std::string packed = Gzip("{\"text\": \"from a pipe\"}\n");
  ASSERT_EQ(::write(writer.get(), packed.data(), packed.size()), static_cast<ssize_t>(packed.size()));
  writer.Close();
  std::string text;
  EXPECT_TRUE(*(*reader)->Next(text));
  EXPECT_EQ(text, "from a pipe");
  EXPECT_FALSE(*(*reader)->Next(text));
}

TEST_F(Documents, FormatOfAPipeMustBeGiven) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor in(ends[1]), out(ends[0]);
  const std::string path = absl::StrCat("/proc/self/fd/", out.get());
  EXPECT_THAT(std::string(OpenDocuments(*files_, path, {}).status().message()),
              HasSubstr(path + " is a pipe, so its format is unknown"));
  EXPECT_TRUE(OpenDocuments(*files_, path, {.format = DocumentFormat::kJsonLines}).ok());
}

TEST_F(Documents, CompressionIsFoundByContent) {
  const std::string line = "{\"text\": \"a\"}\n";
  EXPECT_THAT(*All("a.jsonl", Gzip(line)), ElementsAre("a"));
  EXPECT_THAT(*All("b.jsonl", Zstd(line)), ElementsAre("a"));
  EXPECT_THAT(*All("c.jsonl.gz", Zstd(line)), ElementsAre("a"));
  EXPECT_THAT(Error("d.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
              HasSubstr("is a Git LFS pointer"));
  EXPECT_THAT(Error("e.jsonl", std::string("\xfd"
                                           "7zXZ\0rest",
                                           10)),
              HasSubstr("use: xz -dc"));
}

TEST_F(Documents, GzipMembersAndWhatFollowsThem) {
  const std::string a = Gzip("{\"text\": \"a\"}\n"), b = Gzip("{\"text\": \"b\"}\n");
  EXPECT_THAT(*All("a.jsonl.gz", a + b), ElementsAre("a", "b"));
  EXPECT_THAT(*All("b.jsonl.gz", a + Gzip("") + b + std::string(5000, '\0')), ElementsAre("a", "b"));
  EXPECT_THAT(Error("c.jsonl.gz", a + b.substr(0, b.size() - 1)), HasSubstr("the file is incomplete"));
  EXPECT_THAT(Error("d.jsonl.gz", a + "garbage"),
              HasSubstr(absl::StrCat("other data than gzip from byte ", a.size(),
                                     " on. To keep the data before it: head -c ", a.size())));
  std::string damaged = a;
  damaged[a.size() - 6] = static_cast<char>(damaged[a.size() - 6] ^ 1);  // the checksum
  EXPECT_THAT(Error("e.jsonl.gz", damaged), HasSubstr("is damaged: gzip reports"));
  std::vector<std::string> before;
  EXPECT_THAT(Skip("e.jsonl.gz", b + damaged, before), ElementsAre(HasSubstr("is damaged: gzip reports")));
  EXPECT_THAT(before, ElementsAre("b", "a")) << "only the checksum is wrong";
  EXPECT_THAT(Skip("d.jsonl.gz", a + "garbage", before), ElementsAre(HasSubstr("other data than gzip from byte")));
  EXPECT_THAT(before, ElementsAre("a"));
  EXPECT_THAT(Error("f.jsonl.gz", "plain"), HasSubstr("f.jsonl.gz is named .gz, but its first bytes are not those of "
                                                      "gzip. If it is not compressed, rename it without .gz; "));
}

TEST_F(Documents, ZstdWindowsBeyondTheBoundAreRefusedWithTheCommand) {
  const std::string line = "{\"text\": \"a\"}\n";
  EXPECT_THAT(*All("a.jsonl.zst", ZstdWithWindow(line, 27)), ElementsAre("a"));
  EXPECT_THAT(Error("b.jsonl.zst", Zstd(line) + ZstdWithWindow(line, 28)),
              AllOf(HasSubstr("a window of more than 128 MiB"), HasSubstr("zstd -dc --long=31 ")));
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_THAT(*All("c.jsonl.zst", skippable + Zstd(line)), ElementsAre("a"));
  EXPECT_THAT(Error("d.jsonl.zst", Zstd(line) + "garbage"), HasSubstr("other data than zstd from byte"));
}

TEST_F(Documents, ZstdWithADictionaryIsRefusedWithTheCommand) {
  const std::string line = "{\"text\": \"a\"}\n";
  // The header names dictionary 7.
  const std::string frame = std::string("\x28\xb5\x2f\xfd\x01\x58\x07", 7) + Zstd(line).substr(6);
  const std::string error = Error("a.jsonl.zst", Zstd(line) + frame);
  EXPECT_THAT(error, HasSubstr("a.jsonl.zst was compressed with a dictionary (zstd -D), which is not supported."));
  EXPECT_THAT(error, AllOf(HasSubstr("zstd -dc -D DICTIONARY "), HasSubstr(" | zstd -o plain-a.jsonl.zst")));
}

// The error comes before hours of work.
TEST_F(Documents, ProbeFindsAWrongBeginning) {
  const auto probe = [&](const std::string& name, const std::string& content) {
    return (*OpenDocuments(*files_, dir_.Write(name, content), {}))->Probe();
  };
  EXPECT_TRUE(probe("a.jsonl", "").ok());
  EXPECT_FALSE(probe("b.jsonl.zst", ZstdWithWindow("text", 31)).ok());
  EXPECT_FALSE(probe("c.txt.gz", "text").ok());
}

TEST_F(Documents, Zstd) {
  std::string lines;
  for (int i = 0; i < 50000; ++i) lines += absl::StrCat("{\"text\": \"document ", i, "\"}\n");
  const std::string packed = Zstd(lines);
  EXPECT_EQ(All("a.jsonl.zst", packed)->size(), 50000u);
  EXPECT_EQ(All("b.jsonl.zst", packed + packed)->size(), 100000u);  // frames follow each other
  EXPECT_THAT(Error("c.jsonl.zst", packed.substr(0, packed.size() / 2)), HasSubstr("the file is incomplete"));
  EXPECT_THAT(Error("d.jsonl.zst", packed.substr(0, packed.size() - 1)), HasSubstr("the file is incomplete"));
  EXPECT_THAT(Error("e.jsonl.zst", lines), HasSubstr("its first bytes are not those of zstd"));
  std::string damaged = packed;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  EXPECT_FALSE(All("f.jsonl.zst", damaged).ok());
  EXPECT_THAT(*All("g.txt.zst", Zstd("short")), ElementsAre("short"));
  EXPECT_THAT(*All("h.txt.zst", ""), ElementsAre());
  // Once and twice the read size: the frame ends at the end of the buffer.
  for (const size_t bytes : {size_t{1} << 18, size_t{1} << 19}) {
    const std::string text(bytes, 'a');
    const auto pieces = All("i.txt.zst", Zstd(text));
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    std::string joined;
    for (const std::string& piece : *pieces) joined += piece;
    EXPECT_EQ(joined, text);
    EXPECT_THAT(Error("j.txt.zst", Zstd(text) + Zstd(text).substr(0, 6)), HasSubstr("the file is incomplete"));
  }
}

TEST_F(Documents, TextAsPieces) {
  EXPECT_THAT(*All("a.txt", "short\ntext\n"), ElementsAre("short\ntext\n"));
  std::string text;
  for (int i = 0; i < 3000; ++i) text += absl::StrCat("line ", i, i % 10 == 9 ? "\n\n" : "\n");
  const auto pieces = *All("b.txt", text);
  EXPECT_GT(pieces.size(), 3u);
  std::string joined;
  for (size_t i = 0; i < pieces.size(); ++i) {
    joined += pieces[i];
    EXPECT_LE(pieces[i].size(), 8192u);
    if (i + 1 == pieces.size()) break;
    EXPECT_GE(pieces[i].size(), 4096u);
    EXPECT_EQ(pieces[i].substr(pieces[i].size() - 2), "\n\n");
  }
  EXPECT_EQ(joined, text);  // nothing lost
}

TEST_F(Documents, PiecesWithoutBreaksEndAtCharacters) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "\xe4\xbd\xa0";
  const auto pieces = *All("c.txt", text);
  std::string joined;
  for (const std::string& piece : pieces) {
    EXPECT_EQ(piece.size() % 3, 0u);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  EXPECT_THAT(*All("d.txt", std::string(8192, 'x')), ElementsAre(std::string(8192, 'x')));
  EXPECT_THAT(*All("e.txt", std::string(8193, 'x')), ElementsAre(std::string(8192, 'x'), "x"));
}

TEST_F(Documents, TextInOtherWays) {
  const std::string text = "a\nb\n\n\nc\n  \nd";
  EXPECT_THAT(*All("a.txt", text, {.text_split = TextSplit::kFile}), ElementsAre(text));
  EXPECT_THAT(*All("b.txt", text, {.text_split = TextSplit::kLines}), ElementsAre("a", "b", "c", "d"));
  const auto paragraphs = *All("c.txt", text, {.text_split = TextSplit::kParagraphs});
  ASSERT_EQ(paragraphs.size(), 3u);
  EXPECT_EQ(paragraphs[0], "a\nb");
  EXPECT_EQ(paragraphs[2], "d");
  EXPECT_THAT(Error("d.txt", "fine\nnot \xc3\x28 fine\n"), HasSubstr("d.txt, line 2: byte 5 is not valid UTF-8"));
}

TEST_F(Documents, LimitsAndKinds) {
  const std::string huge(kDocumentBytes + 10, 'x');
  EXPECT_THAT(Error("a.jsonl", "{\"text\":\"a\"}\n\"" + huge),
              HasSubstr("begins in line 2 has more than the 67108864"));
  EXPECT_THAT(Error("a.txt", huge, {.text_split = TextSplit::kFile}), HasSubstr("more than the 67108864"));
  EXPECT_THAT(Error("a.csv", "x"), HasSubstr("has an unknown extension: .txt, .jsonl"));
  EXPECT_EQ(OpenDocuments(*files_, dir_ / "absent", {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenDocuments(*files_, dir_ / "absent.txt", {}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace atl
