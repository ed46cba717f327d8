#include "common/text/document_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

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
        EXPECT_EQ(reader->position_bytes(), reader->file_bytes());
        return out;
      }
      out.push_back(text);
    }
  }
  std::string Error(const std::string& name, const std::string& content, DocumentOptions options = {}) {
    return std::string(All(name, content, options).status().message());
  }
  TempDir dir_;
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
  EXPECT_THAT(Error("a.jsonl", good + "\n{\"text\": }\n"), HasSubstr("a.jsonl, line 3: is not valid JSON"));
  EXPECT_THAT(Error("a.jsonl", good + "[1]"), HasSubstr("line 2: is no JSON object"));
  EXPECT_THAT(Error("a.jsonl", good + "{\"txt\": \"a\"}"),
              HasSubstr("line 2: has no field \"text\"; name it with --field"));
  EXPECT_THAT(Error("a.jsonl", good + "{\"text\": 5}"), HasSubstr("line 2: field \"text\" is no string"));
  EXPECT_THAT(Error("a.jsonl", good + "{\"text\": \"a\", \"text\": \"b\"}"),
              HasSubstr("line 2: has field \"text\" 2 times"));
  EXPECT_EQ(Error("a.jsonl", good + "{\"text\": \"a\", \"meta\": {\"text\": \"b\"}}"), "");
  EXPECT_THAT(Error("a.jsonl", good + "{\"text\": \"a\xff\"}"), HasSubstr("line 2: byte 12 is not valid UTF-8"));
  EXPECT_THAT(Error("a.jsonl", good + "{\"text\": \"\\ud800\"}"), HasSubstr("line 2: is not valid JSON"));
}

TEST_F(Documents, Zstd) {
  std::string lines;
  for (int i = 0; i < 50000; ++i) lines += absl::StrCat("{\"text\": \"document ", i, "\"}\n");
  const std::string packed = Zstd(lines);
  EXPECT_EQ(All("a.jsonl.zst", packed)->size(), 50000u);
  EXPECT_EQ(All("b.jsonl.zst", packed + packed)->size(), 100000u);  // frames follow each other
  EXPECT_THAT(Error("c.jsonl.zst", packed.substr(0, packed.size() / 2)), HasSubstr("it was cut"));
  EXPECT_THAT(Error("d.jsonl.zst", packed.substr(0, packed.size() - 1)), HasSubstr("it was cut"));
  EXPECT_THAT(Error("e.jsonl.zst", lines), HasSubstr("is damaged: zstd says"));
  std::string damaged = packed;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  EXPECT_FALSE(All("f.jsonl.zst", damaged).ok());
  EXPECT_THAT(*All("g.txt.zst", Zstd("short")), ElementsAre("short"));
  EXPECT_THAT(*All("h.txt.zst", ""), ElementsAre());
  // As long as what is read at once, once and twice: the frame ends where the buffer does.
  for (const size_t bytes : {size_t{1} << 18, size_t{1} << 19}) {
    const std::string text(bytes, 'a');
    const auto pieces = All("i.txt.zst", Zstd(text));
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    std::string joined;
    for (const std::string& piece : *pieces) joined += piece;
    EXPECT_EQ(joined, text);
    EXPECT_THAT(Error("j.txt.zst", Zstd(text) + Zstd(text).substr(0, 6)), HasSubstr("it was cut"));
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
  EXPECT_THAT(Error("a.csv", "x"), HasSubstr("is of no known kind: .txt, .jsonl"));
  EXPECT_EQ(OpenDocuments(*files_, dir_ / "absent", {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenDocuments(*files_, dir_ / "absent.txt", {}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace atl
