// BenchLucene is Lucene as `make bench PART=lucene` compares Sluice with it: an index of passages
// with BM25 that stores nothing and has no positions. Texts and questions come as terms, so that
// analysis costs nothing. It reads requests from its standard input, a line and the lines that it
// announces, and answers each with a line of JSON. Times are of Lucene's work alone, on one thread.
//
//   index N        then N passages; they are on disk when it answers
//   merge          leaves one segment
//   search K N     then N questions; any of their terms may match
//   hits K N       the same, and tells the numbers of the passages found and their scores
//   size           bytes on disk, and passages

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.StringJoiner;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LogDocMergePolicy;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopScoreDocCollectorManager;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.MMapDirectory;

public final class BenchLucene {
  private static final String FIELD = "text";

  private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
  private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  private final Directory directory;
  private final IndexWriter writer;
  private DirectoryReader reader;
  private IndexSearcher searcher;

  private BenchLucene(Path folder) throws IOException {
    directory = new MMapDirectory(folder);
    IndexWriterConfig config = new IndexWriterConfig();
    config.setSimilarity(new BM25Similarity(1.2f, 0.75f));
    config.setMergeScheduler(new SerialMergeScheduler());
    config.setMergePolicy(new LogDocMergePolicy()); // of neighbours alone: numbers stay in the order of indexing
    config.setUseCompoundFile(false);
    config.setRAMBufferSizeMB(256);
    writer = new IndexWriter(directory, config);
  }

  public static void main(String[] args) throws IOException {
    if (args.length != 1) {
      System.err.println("usage: bench-lucene FOLDER    (a folder that is not there yet)");
      System.exit(2);
    }
    new BenchLucene(Path.of(args[0])).run();
  }

  private void run() throws IOException {
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      String answer;
      switch (words[0]) {
        case "index" -> answer = index(lines(words[1]));
        case "merge" -> answer = merge();
        case "search" -> answer = search(Integer.parseInt(words[1]), lines(words[2]), false);
        case "hits" -> answer = search(Integer.parseInt(words[1]), lines(words[2]), true);
        case "size" -> answer = size();
        default -> answer = "\"error\": \"no such request\"";
      }
      out.println("{" + answer + "}");
    }
    if (reader != null) {
      reader.close();
    }
    writer.close();
  }

  private String[][] lines(String count) throws IOException {
    String[][] terms = new String[Integer.parseInt(count)][];
    for (int i = 0; i < terms.length; i++) {
      String line = in.readLine();
      terms[i] = line.isEmpty() ? new String[0] : line.split(" ");
    }
    return terms;
  }

  private static String seconds(long begin) {
    return "\"seconds\": " + (System.nanoTime() - begin) / 1e9;
  }

  private String index(String[][] passages) throws IOException {
    FieldType type = new FieldType();
    type.setIndexOptions(IndexOptions.DOCS_AND_FREQS);
    type.setTokenized(true);
    type.freeze();
    long begin = System.nanoTime();
    Terms terms = new Terms();
    Document document = new Document();
    document.add(new Field(FIELD, terms, type));
    for (String[] passage : passages) {
      terms.of = passage;
      writer.addDocument(document);
    }
    writer.commit();
    return seconds(begin);
  }

  private String merge() throws IOException {
    long begin = System.nanoTime();
    writer.forceMerge(1);
    writer.commit();
    String took = seconds(begin);
    reader = DirectoryReader.open(directory);
    searcher = new IndexSearcher(reader);
    searcher.setSimilarity(writer.getConfig().getSimilarity());
    searcher.setQueryCache(null);
    return took;
  }

  private String search(int k, String[][] questions, boolean tell) throws IOException {
    StringJoiner hits = new StringJoiner(", "), scores = new StringJoiner(", ");
    long found = 0, begin = System.nanoTime();
    for (String[] question : questions) {
      BooleanQuery.Builder builder = new BooleanQuery.Builder();
      for (String term : new LinkedHashSet<>(Arrays.asList(question))) {
        builder.add(new TermQuery(new Term(FIELD, term)), BooleanClause.Occur.SHOULD);
      }
      Query query = builder.build();
      // How many passages match beyond the best ones need not be counted.
      ScoreDoc[] best = searcher.search(query, new TopScoreDocCollectorManager(k, k)).scoreDocs;
      found += best.length;
      if (tell) {
        StringJoiner numbers = new StringJoiner(", ", "[", "]"), values = new StringJoiner(", ", "[", "]");
        for (ScoreDoc hit : best) {
          numbers.add(Integer.toString(hit.doc));
          values.add(Float.toString(hit.score));
        }
        hits.add(numbers.toString());
        scores.add(values.toString());
      }
    }
    return seconds(begin) + ", \"found\": " + found + ", \"hits\": [" + hits + "], \"scores\": [" + scores + "]";
  }

  private String size() throws IOException {
    long bytes = 0;
    for (String file : directory.listAll()) {
      bytes += directory.fileLength(file);
    }
    return "\"bytes\": " + bytes + ", \"documents\": " + writer.getDocStats().numDocs;
  }

  /** Terms gives a passage's terms one by one. */
  private static final class Terms extends TokenStream {
    private final CharTermAttribute term = addAttribute(CharTermAttribute.class);
    private String[] of;
    private int next;

    @Override
    public boolean incrementToken() {
      if (next >= of.length) {
        return false;
      }
      clearAttributes();
      term.append(of[next++]);
      return true;
    }

    @Override
    public void reset() {
      next = 0;
    }
  }
}
