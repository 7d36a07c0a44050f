import { Link } from "wouter";

/** Where in its document something stands. A page is a link, which opens it. */
export function PlaceLink({ path, page, location }: { path: string; page: number | undefined; location: string }) {
  if (!page) return <span className="quiet"> {location}</span>;
  return (
    <>
      {" "}
      <Link href={path}>Page {page}</Link>
    </>
  );
}
