import { Link } from "wouter";

/** The position of something in its document. A page is a link that opens it. */
export function PlaceLink({ path, page, location }: { path: string; page: number | undefined; location: string }) {
  if (!page) return <span className="quiet"> {location}</span>;
  return (
    <>
      {" "}
      <Link href={path}>Page {page}</Link>
    </>
  );
}
